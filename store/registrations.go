package store

import (
	"bytes"
	"slices"
)

// Registration is the row of a registered partition.
func (tx *ReadTx) Registration(k LogKey) (Registration, bool, error) {
	return tx.registrations.read(tx, k)
}

// RegistrationsOfTopic calls fn for each registered partition of the topic, in order
// of partition, until it returns false. fn must not write registrations.
func (tx *ReadTx) RegistrationsOfTopic(id TopicID, fn func(LogKey, *Registration) (bool, error)) error {
	return tx.Registrations(LogKey{Topic: id}, func(k LogKey, r *Registration) (bool, error) {
		if k.Topic != id {
			return false, nil
		}
		return fn(k, r)
	})
}

// Registrations calls fn for each registered partition from a key on, in order of
// topic id and partition, until it returns false. fn must not write registrations.
func (tx *ReadTx) Registrations(from LogKey, fn func(LogKey, *Registration) (bool, error)) error {
	if tx.write != nil {
		if err := tx.registrations.flush(tx.write); err != nil {
			return err
		}
	}
	var room [logKeySize]byte
	return tx.scan(bucketRegistrations, appendLogKey(room[:0], from), func(key, payload []byte) (bool, error) {
		r, err := decodeRegistration(key, payload)
		if err != nil {
			return false, err
		}
		return fn(decodeLogKey(key), &r)
	})
}

// ReplicasOf calls fn for each partition that a broker has a replica of, from a key
// on, in order of topic id and partition, until it returns false. fn must not write
// registrations.
func (tx *ReadTx) ReplicasOf(broker int32, from LogKey, fn func(k LogKey, inISR bool) bool) error {
	var room [replicaKeySize]byte
	start := appendReplicaKey(room[:0], broker, from)
	return tx.scan(bucketReplicas, start, func(key, payload []byte) (bool, error) {
		if !bytes.HasPrefix(key, start[:brokerKeySize]) {
			return false, nil
		}
		if len(key) != replicaKeySize || len(payload) != 1 {
			return false, corrupt(bucketReplicas, key, "row does not decode")
		}
		return fn(decodeLogKey(key[brokerKeySize:]), payload[0] == 1), nil
	})
}

// PutRegistration writes the row of a partition of a live topic, and what the index
// of its replicas must hold.
func (tx *WriteTx) PutRegistration(k LogKey, r Registration) error {
	old, exists, err := tx.Registration(k)
	if err != nil {
		return err
	}
	t, ok, err := tx.Topic(k.Topic)
	if err != nil {
		return err
	}
	if !ok || t.Deleted {
		return corrupt(bucketTopics, k.Topic[:], "topic of a registration is missing")
	}
	if exists {
		tx.meta.Totals.ByStage[old.Stage(t.Origin)]--
	} else if err := tx.countRegistration(k.Topic, t); err != nil {
		return err
	}
	tx.meta.Totals.ByStage[r.Stage(t.Origin)]++
	tx.countLeaderless(exists && old.Leader == NoLeader, r.Leader == NoLeader)
	if err := tx.indexReplicas(k, &old, &r); err != nil {
		return err
	}
	tx.changed(rowRef{kind: KindRegistration, log: k})
	_, err = tx.registrations.write(tx, k, r)
	return err
}

func (tx *WriteTx) countRegistration(id TopicID, t Topic) error {
	t.Registrations++
	tx.meta.Totals.Registrations++
	tx.changed(topicRef(id))
	_, err := tx.topics.write(tx, id, t)
	return err
}

func (tx *WriteTx) countLeaderless(before, after bool) {
	if before {
		tx.meta.Totals.Leaderless--
	}
	if after {
		tx.meta.Totals.Leaderless++
	}
}

// indexReplicas brings the index from what a registration was to what it is; the
// zero one has no replicas.
func (tx *WriteTx) indexReplicas(k LogKey, old, r *Registration) error {
	for _, id := range old.Replicas {
		if !slices.Contains(r.Replicas, id) {
			if err := tx.delete(bucketReplicas, appendReplicaKey(nil, id, k)); err != nil {
				return err
			}
		}
	}
	for _, id := range r.Replicas {
		if slices.Contains(old.Replicas, id) && old.InISR(id) == r.InISR(id) {
			continue
		}
		key := appendReplicaKey(tx.arena.buf(replicaKeySize), id, k)
		if err := tx.putRaw(bucketReplicas, key, appendBool(tx.arena.buf(1+crcSize), r.InISR(id))); err != nil {
			return err
		}
	}
	return nil
}

// dropRegistrations removes all registrations of a topic, whose number
// register-partitions bounds; the caller writes the topic's row.
func (tx *WriteTx) dropRegistrations(id TopicID, origin Origin) error {
	var keys []LogKey
	var rows []Registration
	err := tx.RegistrationsOfTopic(id, func(k LogKey, r *Registration) (bool, error) {
		keys, rows = append(keys, k), append(rows, *r)
		return true, nil
	})
	for i := range keys {
		if err == nil {
			err = tx.dropRegistration(keys[i], &rows[i], origin)
		}
	}
	return err
}

func (tx *WriteTx) dropRegistration(k LogKey, r *Registration, origin Origin) error {
	tx.meta.Totals.Registrations--
	tx.meta.Totals.ByStage[r.Stage(origin)]--
	tx.countLeaderless(r.Leader == NoLeader, false)
	if err := tx.indexReplicas(k, r, &Registration{}); err != nil {
		return err
	}
	if err := tx.PutSealProducers(k, nil); err != nil {
		return err
	}
	_, err := tx.registrations.remove(tx, k)
	return err
}

// SealProducers is the producers that the seal of a partition came with.
func (tx *ReadTx) SealProducers(k LogKey) ([]SealProducer, error) {
	key := appendLogKey(nil, k)
	payload, ok, err := tx.get(bucketSealProducers, key)
	if err != nil || !ok {
		return nil, err
	}
	return decodeSealProducers(key, payload)
}

// PutSealProducers writes them; none removes the row. They are apart from the
// registration, which changes much more often.
func (tx *WriteTx) PutSealProducers(k LogKey, all []SealProducer) error {
	key := appendLogKey(nil, k)
	if len(all) > 0 {
		tx.changes++
		return tx.put(bucketSealProducers, key, appendSealProducers(tx.arena.buf(128), all))
	}
	_, ok, err := tx.get(bucketSealProducers, key)
	if err != nil || !ok {
		return err
	}
	tx.changes++
	return tx.delete(bucketSealProducers, key)
}
