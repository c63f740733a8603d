package wire

import (
	"encoding/hex"
	"errors"
)

// topicID is a text type like the topic ids of the control plane, in hexadecimal.
type topicID [16]byte

func (id topicID) MarshalText() ([]byte, error) { return id.AppendText(nil) }

func (id topicID) AppendText(b []byte) ([]byte, error) { return hex.AppendEncode(b, id[:]), nil }

func (id *topicID) UnmarshalText(text []byte) error {
	if len(text) != 2*len(id) {
		return errors.New("must be 32 hexadecimal digits")
	}
	_, err := hex.Decode(id[:], text)
	return err
}

func (id *topicID) UnmarshalBinary(b []byte) error {
	if len(b) != len(id) {
		return errors.New("must be 16 bytes")
	}
	copy(id[:], b)
	return nil
}

// log is embedded where a request names one.
type log struct {
	TopicID   topicID `json:"topic_id" doc:"Id of the topic."`
	Partition int32   `json:"partition" min:"0" doc:"Partition of the topic."`
}

// batch has the fields of a batch of commit-file.
type batch struct {
	log
	Magic             int8  `json:"magic" default:"2"`
	ByteOffset        int64 `json:"byte_offset" min:"0"`
	ByteSize          int64 `json:"byte_size" min:"1"`
	BaseOffset        int64 `json:"base_offset"`
	LastOffset        int64 `json:"last_offset"`
	TimestampType     int8  `json:"timestamp_type" default:"0"`
	BatchMaxTimestamp int64 `json:"batch_max_timestamp" doc:"Milliseconds since 1970."`
	ProducerID        int64 `json:"producer_id" default:"-1"`
	ProducerEpoch     int16 `json:"producer_epoch" default:"-1"`
	BaseSequence      int32 `json:"base_sequence" default:"-1"`
	LastSequence      int32 `json:"last_sequence" default:"-1"`
}

type commitFile struct {
	ObjectKey        string  `json:"object_key" maxlen:"1024"`
	Format           int8    `json:"format" default:"1"`
	UploaderBrokerID int32   `json:"uploader_broker_id"`
	FileSize         int64   `json:"file_size" min:"0"`
	Batches          []batch `json:"batches"`
}

func sampleCommit(n int) *commitFile {
	req := &commitFile{ObjectKey: "0f8fad5b-d9cb-469f-a165-70867728950e", Format: 1, UploaderBrokerID: 3, FileSize: 1 << 20}
	for i := range n {
		req.Batches = append(req.Batches, batch{
			log: log{topicID{1, 2, 15: byte(i)}, int32(i)}, Magic: 2, ByteOffset: int64(i) * 100_000, ByteSize: 100_000,
			LastOffset: 99, BatchMaxTimestamp: 1_700_485_738_843, ProducerID: 4711, BaseSequence: 100, LastSequence: 199,
		})
	}
	return req
}

type mode string

// everything has every kind of field.
type everything struct {
	Flag    bool              `json:"flag" default:"false" doc:"A switch."`
	Tiny    int8              `json:"tiny" default:"-1" min:"-1"`
	Small   int16             `json:"small" default:"7"`
	Medium  int32             `json:"medium" default:"0" min:"0"`
	Large   int64             `json:"large"`
	Name    string            `json:"name" default:"" maxlen:"8"`
	Mode    mode              `json:"mode" default:"fast" oneof:"fast,safe"`
	Topic   topicID           `json:"topic" default:""`
	Keys    []string          `json:"keys" default:"[]" maxlen:"8"`
	Config  map[string]string `json:"config" default:"{}"`
	Counts  map[string]int64  `json:"counts" default:"{}"`
	Window  window            `json:"window" default:"{}"`
	Windows []window          `json:"windows" default:"[]"`
	Note    string            `json:"note,omitzero" default:""`
	Inner   int               `json:"-"`
	private int
}

type window struct {
	From int64 `json:"from" default:"-1"`
	To   int64 `json:"to" default:"-1"`
}
