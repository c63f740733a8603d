package store

import "encoding/binary"

func appendBroker(b []byte, v *Broker) []byte {
	b = binary.AppendVarint(b, v.Epoch)
	b = appendString(b, v.IncarnationID)
	b = appendString(b, v.Rack)
	b = binary.AppendUvarint(b, uint64(len(v.Endpoints)))
	for _, e := range v.Endpoints {
		b = appendString(b, e)
	}
	b = appendBool(b, v.Fenced)
	b = append(b, byte(v.Walk.Kind))
	if v.Walk.Kind != WalkNone {
		b = appendLogKey(b, v.Walk.Next)
	}
	return b
}

func decodeBroker(key, payload []byte) (Broker, error) {
	r := rowReader{buf: payload}
	v := Broker{Epoch: r.int(), IncarnationID: r.string(), Rack: r.string()}
	if n := r.count(); n > 0 {
		v.Endpoints = make([]string, n)
		for i := range v.Endpoints {
			v.Endpoints[i] = r.string()
		}
	}
	v.Fenced, v.Walk.Kind = r.byte() == 1, WalkKind(r.byte())
	if v.Walk.Kind > WalkUnfence {
		return Broker{}, corrupt(bucketBrokers, key, "unknown kind of walk")
	}
	if v.Walk.Kind != WalkNone {
		if next := r.bytes(logKeySize); next != nil {
			v.Walk.Next = decodeLogKey(next)
		}
	}
	return v, r.done(bucketBrokers, key)
}

func appendRegistration(b []byte, v *Registration) []byte {
	b = appendBrokerIDs(b, v.Replicas)
	b = appendBrokerIDs(b, v.ISR)
	for _, n := range []int32{v.Leader, v.LeaderEpoch, v.PartitionEpoch, v.DisklessLeaderEpoch, v.SealedBy} {
		b = binary.AppendVarint(b, int64(n))
	}
	b = binary.AppendVarint(b, v.ClassicToDisklessStartOffset)
	return appendBool(b, v.ClassicPrefixInRemoteStorage)
}

func decodeRegistration(key, payload []byte) (Registration, error) {
	r := rowReader{buf: payload}
	v := Registration{Replicas: r.brokerIDs(), ISR: r.brokerIDs()}
	for _, n := range []*int32{&v.Leader, &v.LeaderEpoch, &v.PartitionEpoch, &v.DisklessLeaderEpoch, &v.SealedBy} {
		*n = int32(r.int())
	}
	v.ClassicToDisklessStartOffset = r.int()
	v.ClassicPrefixInRemoteStorage = r.byte() == 1
	return v, r.done(bucketRegistrations, key)
}

func appendBrokerIDs(b []byte, ids []int32) []byte {
	b = binary.AppendUvarint(b, uint64(len(ids)))
	for _, id := range ids {
		b = binary.AppendVarint(b, int64(id))
	}
	return b
}

func (r *rowReader) brokerIDs() []int32 {
	n := r.count()
	if n == 0 {
		return nil
	}
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(r.int())
	}
	return ids
}

func appendSealProducers(b []byte, all []SealProducer) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for i := range all {
		p := &all[i]
		for _, v := range []int64{p.ProducerID, int64(p.Epoch), int64(p.BaseSequence), int64(p.LastSequence), p.AssignedOffset, p.BatchMaxTimestamp} {
			b = binary.AppendVarint(b, v)
		}
	}
	return b
}

func decodeSealProducers(key, payload []byte) ([]SealProducer, error) {
	r := rowReader{buf: payload}
	all := make([]SealProducer, r.count())
	for i := range all {
		all[i] = SealProducer{ProducerID: r.int(), Epoch: int16(r.int()), ProducerEntry: ProducerEntry{
			BaseSequence: int32(r.int()), LastSequence: int32(r.int()), AssignedOffset: r.int(), BatchMaxTimestamp: r.int()}}
	}
	return all, r.done(bucketSealProducers, key)
}
