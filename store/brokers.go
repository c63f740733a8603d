package store

// Broker is the row of a broker that has registered.
func (tx *ReadTx) Broker(id int32) (Broker, bool, error) { return tx.brokers.read(tx, id) }

// Brokers calls fn for each broker, by id, until it returns false.
func (tx *ReadTx) Brokers(fn func(id int32, b *Broker) bool) error {
	if tx.write != nil {
		if err := tx.brokers.flush(tx.write); err != nil {
			return err
		}
	}
	return tx.scan(bucketBrokers, nil, func(key, payload []byte) (bool, error) {
		b, err := decodeBroker(key, payload)
		return err == nil && fn(decodeBrokerKey(key), &b), err
	})
}

// PutBroker writes the row of a broker.
func (tx *WriteTx) PutBroker(id int32, b Broker) error {
	tx.changed(rowRef{kind: KindBroker, broker: id})
	created, err := tx.brokers.write(tx, id, b)
	if created {
		tx.meta.Totals.Brokers++
	}
	return err
}

// NextBrokerEpoch is an epoch that no broker has had.
func (tx *WriteTx) NextBrokerEpoch() int64 {
	tx.meta.LastEpoch++
	return int64(tx.meta.LastEpoch)
}
