package store

import "bytes"

// Producer is the state of an idempotent producer in one log.
func (tx *ReadTx) Producer(logID uint64, producerID int64) (Producer, bool, error) {
	return tx.producers.read(tx, producerKey{logID, producerID})
}

// PutProducer writes the state of a producer.
func (tx *WriteTx) PutProducer(logID uint64, producerID int64, p Producer) error {
	created, err := tx.producers.write(tx, producerKey{logID, producerID}, p)
	if created {
		tx.meta.Totals.ProducerStates++
	}
	return err
}

// DropProducer removes the state of a producer.
func (tx *WriteTx) DropProducer(logID uint64, producerID int64) error {
	removed, err := tx.producers.remove(tx, producerKey{logID, producerID})
	if removed {
		tx.meta.Totals.ProducerStates--
	}
	return err
}

// ProducersOfLog calls fn for each producer of a log, by producer id, until it
// returns false. fn must not change producers.
func (tx *ReadTx) ProducersOfLog(logID uint64, fn func(producerID int64, p *Producer) bool) error {
	var room [8]byte
	prefix := appendID(room[:0], logID)
	return tx.scanProducers(prefix, nil, func(k []byte, p *Producer) bool {
		if !bytes.HasPrefix(k, prefix) {
			return false
		}
		_, id := decodeProducerKey(k)
		return fn(id, p)
	})
}

// Producers calls fn for each producer of any log after the position (0, 0 is
// before all), by log id and producer id, until it returns false. fn must not
// change producers.
func (tx *ReadTx) Producers(afterLog uint64, afterProducer int64, fn func(logID uint64, producerID int64, p *Producer) bool) error {
	var room [producerKeySize]byte
	after := appendProducerKey(room[:0], afterLog, afterProducer)
	return tx.scanProducers(after, after, func(k []byte, p *Producer) bool {
		logID, id := decodeProducerKey(k)
		return fn(logID, id, p)
	})
}

func (tx *ReadTx) scanProducers(from, skip []byte, fn func(k []byte, p *Producer) bool) error {
	if tx.write != nil {
		if err := tx.producers.flush(tx.write); err != nil {
			return err
		}
	}
	c := tx.bucket(bucketProducers).Cursor()
	for k, row := c.Seek(from); k != nil; k, row = c.Next() {
		if bytes.Equal(k, skip) {
			continue
		}
		payload, err := openRow(bucketProducers, k, row)
		if err != nil {
			return err
		}
		p, err := decodeProducer(k, payload)
		if err != nil {
			return err
		}
		if !fn(k, &p) {
			return nil
		}
	}
	return nil
}
