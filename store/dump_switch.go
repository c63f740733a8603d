package store

func brokerOfKey(k []byte) values { return values{"broker_id": decodeBrokerKey(k)} }

func replicaOfKey(k []byte) values {
	key := logOfKey(k[brokerKeySize:])
	key["broker_id"] = decodeBrokerKey(k)
	return key
}

func replicaValues(key, payload []byte) (values, error) {
	if len(payload) != 1 {
		return nil, corrupt(bucketReplicas, key, "wrong length of row")
	}
	return values{"in_isr": payload[0] == 1}, nil
}

func brokerValues(key, payload []byte) (values, error) {
	b, err := decodeBroker(key, payload)
	v := values{
		"broker_epoch": b.Epoch, "incarnation_id": b.IncarnationID, "rack": b.Rack, "endpoints": b.Endpoints, "fenced": b.Fenced,
	}
	if b.Walk.Kind != WalkNone {
		v["walk"] = values{"kind": b.Walk.Kind.String(), "next_topic_id": b.Walk.Next.Topic.String(), "next_partition": b.Walk.Next.Partition}
	}
	return v, err
}

func registrationValues(key, payload []byte) (values, error) {
	r, err := decodeRegistration(key, payload)
	return values{
		"replicas": r.Replicas, "isr": r.ISR, "leader": r.Leader, "leader_epoch": r.LeaderEpoch, "partition_epoch": r.PartitionEpoch,
		"classic_to_diskless_start_offset": r.ClassicToDisklessStartOffset,
		"classic_prefix_in_remote_storage": r.ClassicPrefixInRemoteStorage,
		"diskless_leader_epoch":            r.DisklessLeaderEpoch, "sealed_by": r.SealedBy,
	}, err
}

func sealProducerValues(key, payload []byte) (values, error) {
	all, err := decodeSealProducers(key, payload)
	states := make([]values, len(all))
	for i, p := range all {
		states[i] = values{
			"producer_id": p.ProducerID, "producer_epoch": p.Epoch, "base_sequence": p.BaseSequence, "last_sequence": p.LastSequence,
			"assigned_offset": p.AssignedOffset, "batch_max_timestamp": p.BatchMaxTimestamp,
		}
	}
	return values{"producer_states": states}, err
}

func eventOfKey(k []byte) values { return values{"index": decodeID(k)} }

// eventValues shows each change as the row that it is of; a null value is a topic that
// was deleted.
func eventValues(key, payload []byte) (values, error) {
	var e Event
	changes := []values{}
	err := readEvent(key, payload, &e, func(kind Kind, key, row []byte) error {
		of := eventDump[kind]
		change := values{"bucket": of.bucket.String(), "key": of.key(key), "value": nil}
		changes = append(changes, change)
		if kind == KindRegistration {
			change["origin"], row = Origin(row[0]).String(), row[1:]
		}
		if len(row) == 0 {
			return nil
		}
		value, err := of.value(key, row)
		change["value"] = value
		return err
	})
	return values{"seq": e.Seq, "changes": changes}, err
}

// eventDump says how changes decode, as dumpTable does for rows.
var eventDump = [...]struct {
	bucket bucket
	key    func([]byte) values
	value  func(key, payload []byte) (values, error)
}{
	KindTopic:        {bucketTopics, topicOfKey, topicValues},
	KindBroker:       {bucketBrokers, brokerOfKey, brokerValues},
	KindRegistration: {bucketRegistrations, logOfKey, registrationValues},
}
