package store

// Topic is the row of a topic id, live or soft-deleted.
func (tx *ReadTx) Topic(id TopicID) (Topic, bool, error) { return tx.topics.read(tx, id) }

// TopicByName is the id of the live topic of that name.
func (tx *ReadTx) TopicByName(name string) (id TopicID, ok bool, err error) {
	payload, ok, err := tx.get(bucketTopicNames, []byte(name))
	if err != nil || !ok {
		return id, false, err
	}
	if err := id.UnmarshalBinary(payload); err != nil {
		return id, false, corrupt(bucketTopicNames, []byte(name), "not a topic id")
	}
	return id, true, nil
}

// Topics calls fn for each topic with an id above after, in order of id, until
// it returns false. The zero id is below all topics.
func (tx *ReadTx) Topics(after TopicID, fn func(TopicID, *Topic) (bool, error)) error {
	if tx.write != nil {
		if err := tx.topics.flush(tx.write); err != nil {
			return err
		}
	}
	return tx.scan(bucketTopics, after[:], func(key, payload []byte) (bool, error) {
		var id TopicID
		if err := id.UnmarshalBinary(key); err != nil {
			return false, corrupt(bucketTopics, key, "not a topic id")
		}
		if id == after {
			return true, nil
		}
		t, err := decodeTopic(key, payload)
		if err != nil {
			return false, err
		}
		return fn(id, &t)
	})
}

// PutTopic writes the row of a live topic. The name of an existing one must not change.
func (tx *WriteTx) PutTopic(id TopicID, t Topic) error {
	tx.changed(topicRef(id))
	created, err := tx.topics.write(tx, id, t)
	if err != nil || !created {
		return err
	}
	tx.meta.Totals.Topics++
	return tx.putRaw(bucketTopicNames, []byte(t.Name), append(tx.arena.buf(topicKeySize+crcSize), id[:]...))
}

// SoftDeleteTopic stamps the live logs of a live topic, drops its registrations,
// frees its name, and returns how many logs it stamped. It touches no batch. A topic
// without logs goes at once: no purge would ever come by.
func (tx *WriteTx) SoftDeleteTopic(id TopicID, nowMs int64) (int64, error) {
	t, ok, err := tx.Topic(id)
	if err != nil || !ok || t.Deleted {
		return 0, err
	}
	if err := tx.delete(bucketTopicNames, []byte(t.Name)); err != nil {
		return 0, err
	}
	tx.meta.Totals.Topics--
	if err := tx.dropRegistrations(id, t.Origin); err != nil {
		return 0, err
	}
	t.Registrations = 0
	tx.changed(topicRef(id))
	if t.Logs == 0 {
		_, err := tx.topics.remove(tx, id)
		return 0, err
	}
	t.Deleted, t.DeletedAt = true, nowMs
	if _, err := tx.topics.write(tx, id, t); err != nil {
		return 0, err
	}
	var keys []LogKey
	err = tx.LogsOfTopic(id, -1, func(k LogKey, _ *Log) (bool, error) {
		keys = append(keys, k)
		return true, nil
	})
	if err != nil {
		return 0, err
	}
	for _, k := range keys {
		if err := tx.softDeleteLog(k, nowMs); err != nil {
			return 0, err
		}
	}
	return int64(len(keys)), nil
}
