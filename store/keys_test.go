package store

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeysSortAsTheyMean(t *testing.T) {
	var keys [][]byte
	for _, ms := range []int64{math.MinInt64, -2, -1, 0, 1, math.MaxInt64} {
		for _, k := range []LogKey{{TopicID{1}, 0}, {TopicID{1}, 1}, {TopicID{1}, math.MaxInt32}, {TopicID{2}, 0}} {
			key := appendDeletedLogKey(nil, ms, k)
			require.Len(t, key, deletedLogKeySize)
			require.Equal(t, ms, decodeTime(key))
			require.Equal(t, k, decodeLogKey(key[8:]))
			keys = append(keys, key)
		}
	}
	for i := 1; i < len(keys); i++ {
		require.Negative(t, bytes.Compare(keys[i-1], keys[i]))
	}
	logID, base := decodeBatchKey(appendBatchKey(nil, 7, math.MaxInt64))
	require.EqualValues(t, 7, logID)
	require.EqualValues(t, math.MaxInt64, base)
	logID, producer := decodeProducerKey(appendProducerKey(nil, math.MaxUint64, 9))
	require.EqualValues(t, uint64(math.MaxUint64), logID)
	require.EqualValues(t, 9, producer)
}

func TestTopicIDText(t *testing.T) {
	const canonical, kafka = "0194f0e2-7a3c-4d5e-8f90-a1b2c3d4e5f6", "AZTw4no8TV6PkKGyw9Tl9g"
	id, err := ParseTopicID(canonical)
	require.NoError(t, err)
	require.Equal(t, canonical, id.String())
	other, err := ParseTopicID(kafka)
	require.NoError(t, err)
	require.Equal(t, id, other)
	upper, err := ParseTopicID("0194F0E2-7A3C-4D5E-8F90-A1B2C3D4E5F6")
	require.NoError(t, err)
	require.Equal(t, id, upper)
	text, err := json.Marshal(map[string]TopicID{"id": id})
	require.NoError(t, err)
	require.JSONEq(t, `{"id": "`+canonical+`"}`, string(text))
	var back map[string]TopicID
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, id, back["id"])
	require.False(t, id.IsZero())
	require.True(t, TopicID{}.IsZero())
	for _, bad := range []string{"", "x", canonical[:35], canonical + "0", "0194f0e2x7a3c-4d5e-8f90-a1b2c3d4e5f6",
		"0194f0e2-7a3c-4d5e-8f90-a1b2c3d4e5fg", "AZTw4no8TV6PkKGyw9Tl9h", "AZTw4no8TV6PkKGyw9Tl9", "AZTw4no8TV6PkKGyw9Tl9+", "AZTw4no8TV6PkKGyw9Tl\n9g"} {
		_, err := ParseTopicID(bad)
		require.ErrorIs(t, err, ErrTopicID, bad)
	}
}
