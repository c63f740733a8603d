package store

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
)

// TopicID is a Kafka topic id, a UUID. The zero UUID is not a topic.
type TopicID [16]byte

// ErrTopicID is the answer to text that is neither a canonical UUID nor Kafka's
// 22-character base64 form of one.
var ErrTopicID = errors.New("must be a UUID (8-4-4-4-12 hex digits) or its 22-character base64 form")

// ParseTopicID reads a canonical UUID or Kafka's URL-safe, unpadded base64 form.
func ParseTopicID(s string) (TopicID, error) {
	var id TopicID
	switch len(s) {
	case 22:
		if n, err := base64.RawURLEncoding.Strict().Decode(id[:], []byte(s)); err != nil || n != len(id) {
			return TopicID{}, ErrTopicID
		}
		return id, nil
	case 36:
		if s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
			return TopicID{}, ErrTopicID
		}
		digits := s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
		if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
			return TopicID{}, ErrTopicID
		}
		return id, nil
	}
	return TopicID{}, ErrTopicID
}

// IsZero says whether id is the zero UUID.
func (id TopicID) IsZero() bool { return id == TopicID{} }

// Compare orders ids by their bytes, which is the order of their rows.
func (id TopicID) Compare(other TopicID) int { return bytes.Compare(id[:], other[:]) }

// String is the canonical UUID text, in lower case.
func (id TopicID) String() string {
	text, _ := id.AppendText(make([]byte, 0, 36))
	return string(text)
}

// AppendText appends the canonical UUID text to b.
func (id TopicID) AppendText(b []byte) ([]byte, error) {
	b = hex.AppendEncode(b, id[0:4])
	b = append(b, '-')
	b = hex.AppendEncode(b, id[4:6])
	b = append(b, '-')
	b = hex.AppendEncode(b, id[6:8])
	b = append(b, '-')
	b = hex.AppendEncode(b, id[8:10])
	b = append(b, '-')
	return hex.AppendEncode(b, id[10:16]), nil
}

// MarshalText is the canonical UUID text.
func (id TopicID) MarshalText() ([]byte, error) { return id.AppendText(nil) }

// UnmarshalText reads what ParseTopicID reads.
func (id *TopicID) UnmarshalText(text []byte) (err error) {
	*id, err = ParseTopicID(string(text))
	return err
}

// UnmarshalBinary reads the 16 bytes of a UUID.
func (id *TopicID) UnmarshalBinary(b []byte) error {
	if len(b) != len(id) {
		return ErrTopicID
	}
	copy(id[:], b)
	return nil
}
