package store

import "encoding/binary"

// topicCheck is a topic, and the log rows counted for it.
type topicCheck struct {
	Topic
	counted int64
}

func (c *checker) checkTopics() {
	c.topics = map[TopicID]*topicCheck{}
	c.scan(bucketTopics, topicKeySize, func(key, payload []byte) error {
		t, err := decodeTopic(key, payload)
		if err != nil {
			return err
		}
		c.topics[TopicID(key)] = &topicCheck{Topic: t}
		if !t.Deleted {
			c.totals.Topics++
			// One live topic a name: the row of the name can point at one only.
			c.expect(bucketTopicNames, []byte(t.Name), key)
		}
		return nil
	})
}

// checkFiles recounts the references, and what each file needs in the indexes.
func (c *checker) checkFiles() {
	c.scan(bucketFiles, fileKeySize, func(key, payload []byte) error {
		f, err := decodeFile(key, payload)
		if err != nil {
			return err
		}
		if f.ID > c.meta.LastFileID {
			c.problem("file %d: id is above the last one given, %d", f.ID, c.meta.LastFileID)
		}
		if refs := c.refs[f.ID]; refs != f.BatchCount {
			c.problem("file %d: batch_count is %d, counted %d", f.ID, f.BatchCount, refs)
		}
		delete(c.refs, f.ID)
		switch {
		case f.State == FileUploaded && f.BatchCount > 0:
			c.totals.FilesUploaded++
		case f.State == FileDeleting && f.BatchCount == 0:
			c.totals.FilesDeleting++
			c.expect(bucketDeletingFiles, appendDeletingKey(nil, f.MarkedForDeletionAt, f.ID), nil)
		default:
			c.problem("file %d: state %d with batch_count %d", f.ID, f.State, f.BatchCount)
		}
		c.expect(bucketFileKeys, []byte(f.ObjectKey), key)
		return nil
	})
	for _, id := range sortedKeys(c.refs) {
		c.problem("file %d is missing, %d batches refer to it", id, c.refs[id])
	}
}

func (c *checker) checkReplays() {
	c.scan(bucketReplays, fileKeySize, func(key, payload []byte) error {
		c.totals.Replays++
		if !c.has(bucketFiles, key) {
			c.problem("replay of file %d: the file is missing", decodeID(key))
		}
		_, err := decodeReplay(key, payload)
		return err
	})
}

func (c *checker) checkProducers() {
	c.scan(bucketProducers, producerKeySize, func(key, payload []byte) error {
		c.totals.ProducerStates++
		if logID, id := decodeProducerKey(key); c.logs[logID] == nil {
			c.problem("producer %d of log %d: the log is missing", id, logID)
		}
		_, err := decodeProducer(key, payload)
		return err
	})
}

func (c *checker) checkFences() {
	c.scan(bucketFences, 0, func(key, payload []byte) error {
		c.totals.Fences++
		until, n := binary.Varint(payload)
		if n != len(payload) {
			return corrupt(bucketFences, key, "row does not decode")
		}
		c.expect(bucketFenceTimes, appendFenceTimeKey(nil, until, string(key)), nil)
		return nil
	})
}
