package store

import "encoding/binary"

// Keys are big-endian and of fixed width (names and object keys come last), so
// that byte order is the order we scan in:
//
//	topics         | topic id 16 |
//	topic_names    | name ... |
//	logs           | topic id 16 | partition 4 |
//	deleted_logs   | deleted_at 8 | topic id 16 | partition 4 |
//	batches        | log id 8 | base offset 8 |
//	batch_times    | log id 8 | level 1 | group 8 |
//	files          | file id 8 |
//	file_keys      | object key ... |
//	deleting_files | marked_for_deletion_at 8 | file id 8 |
//	replays        | file id 8 |
//	producers      | log id 8 | producer id 8 |
//	fences         | object key ... |
//	fence_times    | fenced_until 8 | object key ... |
//	brokers        | broker id 4 |
//	registrations  | topic id 16 | partition 4 |
//	replicas       | broker id 4 | topic id 16 | partition 4 |
//	seal_producers | topic id 16 | partition 4 |
//	events         | index 8 |
//
// Times have their sign bit flipped, so that those before 1970 sort first.
const (
	topicKeySize       = 16
	logKeySize         = 20
	deletedLogKeySize  = 28
	batchKeySize       = 16
	batchTimeKeySize   = 17
	fileKeySize        = 8
	deletingKeySize    = 16
	producerKeySize    = 16
	eventKeySize       = 8
	fenceTimeKeyPrefix = 8
	brokerKeySize      = 4
	replicaKeySize     = 24
)

func appendTime(b []byte, ms int64) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(ms)^1<<63)
}

func decodeTime(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ 1<<63) }

func appendLogKey(b []byte, k LogKey) []byte {
	b = append(b, k.Topic[:]...)
	return binary.BigEndian.AppendUint32(b, uint32(k.Partition))
}

func decodeLogKey(b []byte) (k LogKey) {
	copy(k.Topic[:], b)
	k.Partition = int32(binary.BigEndian.Uint32(b[topicKeySize:]))
	return k
}

func appendDeletedLogKey(b []byte, deletedAt int64, k LogKey) []byte {
	return appendLogKey(appendTime(b, deletedAt), k)
}

func appendBatchKey(b []byte, logID uint64, baseOffset int64) []byte {
	b = binary.BigEndian.AppendUint64(b, logID)
	return binary.BigEndian.AppendUint64(b, uint64(baseOffset))
}

func decodeBatchKey(b []byte) (logID uint64, baseOffset int64) {
	return binary.BigEndian.Uint64(b), int64(binary.BigEndian.Uint64(b[8:]))
}

func appendBatchTimeKey(b []byte, logID uint64, level int, group uint64) []byte {
	b = binary.BigEndian.AppendUint64(b, logID)
	b = append(b, byte(level))
	return binary.BigEndian.AppendUint64(b, group)
}

func appendID(b []byte, id uint64) []byte { return binary.BigEndian.AppendUint64(b, id) }

func decodeID(b []byte) uint64 { return binary.BigEndian.Uint64(b) }

func appendDeletingKey(b []byte, markedAt int64, fileID uint64) []byte {
	return appendID(appendTime(b, markedAt), fileID)
}

func appendProducerKey(b []byte, logID uint64, producerID int64) []byte {
	b = binary.BigEndian.AppendUint64(b, logID)
	return binary.BigEndian.AppendUint64(b, uint64(producerID))
}

func decodeProducerKey(b []byte) (logID uint64, producerID int64) {
	return binary.BigEndian.Uint64(b), int64(binary.BigEndian.Uint64(b[8:]))
}

func appendFenceTimeKey(b []byte, until int64, objectKey string) []byte {
	return append(appendTime(b, until), objectKey...)
}

func appendBrokerKey(b []byte, id int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(id)) }

func decodeBrokerKey(b []byte) int32 { return int32(binary.BigEndian.Uint32(b)) }

func appendReplicaKey(b []byte, broker int32, k LogKey) []byte {
	return appendLogKey(appendBrokerKey(b, broker), k)
}
