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
