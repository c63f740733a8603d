package model

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

const aTopic = "00000000-0000-4000-8000-000000000001"

// do runs one operation at clock 1000 and returns its answer, or the code of its error.
func do(t *testing.T, m *Model, op, request string) string {
	response, code := m.Do(op, 1000, []byte(request))
	if code != "" {
		return code
	}
	text, err := json.Marshal(response)
	require.NoError(t, err)
	return string(text)
}

func TestTopicIDForms(t *testing.T) {
	for text, want := range map[string]string{
		aTopic:                                 aTopic,
		"AAAAAAAAQACAAAAAAAAAAQ":               aTopic,
		"ABCDEFAB-0000-4000-8000-000000000001": "abcdefab-0000-4000-8000-000000000001",
		"AAAAAAAAQACAAAAAAAAA":                 "",
		"nonsense":                             "",
		"":                                     "",
	} {
		var id topicID
		err := id.UnmarshalText([]byte(text))
		require.Equal(t, want == "", err != nil, text)
		require.Equal(t, want, string(id), text)
	}
}

func TestRefusedRequests(t *testing.T) {
	m := New(DefaultConfig())
	for op, request := range map[string]string{
		"delete-topics":          `{"topic_ids": ["x"]}`,
		"get-log-info":           `{"requests": [{"topic_id": "` + aTopic + `", "partition": -1}]}`,
		"purge-deleted-logs":     `{"max_batches": -1}`,
		"expire-fences":          `{"max_rows": 1.5}`,
		"list-topics":            `{"after": "x"}`,
		"list-files":             `{"after": "x"}`,
		"prune-diskless-logs":    `{"max_batches": 99999999999999999999}`,
		"delete-records":         `{"requests": [{"partition": 4294967296}]}`,
		"is-safe-to-delete-file": `[]`,
	} {
		require.Equal(t, invalidRequest, do(t, m, op, request), op)
	}
	require.Equal(t, "UNKNOWN_OPERATION", do(t, m, "make-coffee", `{}`))
}

func TestInitKeepsOnlyTheLatestEpoch(t *testing.T) {
	m := New(DefaultConfig())
	entry := `{"producer_id": 7, "producer_epoch": %d, "base_sequence": %d, "last_sequence": %d, "assigned_offset": 0, "batch_max_timestamp": 5}`
	states := fmt.Sprintf(entry+","+entry+","+entry, 1, 0, 3, 2, 0, 1, 1, 4, 6)
	log := `{"requests": [{"topic_id": "` + aTopic + `", "topic_name": "a", "partition": 0, "log_start_offset": 0, "diskless_start_offset": 9, "producer_states": [` + states + `]}]}`
	require.Contains(t, do(t, m, "init-diskless-log", log), noError)
	p := m.producerAt(target{aTopic, 0}, 7)
	require.Equal(t, int16(2), p.epoch)
	require.Equal(t, []sequence{{0, 1, 0, 5}}, p.entries)
}

func TestRepairRefusesNegativeOffset(t *testing.T) {
	m := New(DefaultConfig())
	do(t, m, "create-topics", `{"topics": [{"topic_id": "`+aTopic+`", "topic_name": "a", "num_partitions": 1}]}`)
	request := `{"requests": [{"topic_id": "` + aTopic + `", "partition": 0, "diskless_start_offset": -1}]}`
	require.Contains(t, do(t, m, "repair-diskless-log", request), invalidRequest)
}

// twoBatches holds one live log with two batches of one file, a second topic and a producer.
func twoBatches(t *testing.T) *Model {
	m := New(DefaultConfig())
	do(t, m, "create-topics", `{"topics": [{"topic_id": "`+aTopic+`", "topic_name": "a", "num_partitions": 1},
		{"topic_id": "00000000-0000-4000-8000-000000000002", "topic_name": "b", "num_partitions": 1}]}`)
	batch := `{"topic_id": "` + aTopic + `", "partition": 0, "byte_offset": %d, "byte_size": 10, "base_offset": 0, "last_offset": 4,
		"batch_max_timestamp": 5, "producer_id": 7, "producer_epoch": 0, "base_sequence": %d, "last_sequence": %d}`
	do(t, m, "commit-file", fmt.Sprintf(`{"object_key": "k", "uploader_broker_id": 1, "file_size": 99, "batches": [`+batch+","+batch+`]}`,
		0, 0, 4, 50, 5, 9))
	require.NoError(t, m.Invariants())
	return m
}

func TestInvariantsSeeDamage(t *testing.T) {
	for name, damage := range map[string]func(*Model, *topic, *log){
		"gap":               func(_ *Model, _ *topic, l *log) { l.batches[1].baseOffset++ },
		"overlap":           func(_ *Model, _ *topic, l *log) { l.batches[0].lastOffset++ },
		"reversed batch":    func(_ *Model, _ *topic, l *log) { l.batches[1].baseOffset = l.batches[1].lastOffset + 1 },
		"short of the end":  func(_ *Model, _ *topic, l *log) { l.highWatermark++ },
		"start after end":   func(_ *Model, _ *topic, l *log) { l.batches, l.start = nil, 11 },
		"batch below start": func(_ *Model, _ *topic, l *log) { l.start = 5 },
		"no file":           func(m *Model, _ *topic, _ *log) { m.files = nil },
		"marked in use":     func(m *Model, _ *topic, _ *log) { m.files[0].markedAt = 1 },
		"key twice":         func(m *Model, _ *topic, _ *log) { m.files = append(m.files, m.files[0]) },
		"unmarked":          func(_ *Model, _ *topic, l *log) { l.batches, l.start = nil, 10 },
		"six entries":       func(_ *Model, _ *topic, l *log) { l.producers[7].entries = make([]sequence, 6) },
		"name twice":        func(_ *Model, t *topic, _ *log) { t.name = "b" },
		"topic without log": func(_ *Model, t *topic, _ *log) { delete(t.logs, 0) },
		"went back":         func(m *Model, _ *topic, l *log) { l.remoteStart = 5; m.watch(); l.remoteStart = 4; m.watch() },
	} {
		m := twoBatches(t)
		topic := m.topics[aTopic]
		damage(m, topic, topic.logs[0])
		require.Error(t, m.Invariants(), name)
	}
}

func TestInvariantsSeeEpochsGoBack(t *testing.T) {
	for name, damage := range map[string]func(*broker, *registration){
		"leader epoch":    func(_ *broker, r *registration) { r.leaderEpoch-- },
		"partition epoch": func(_ *broker, r *registration) { r.partEpoch-- },
		"broker epoch":    func(b *broker, _ *registration) { b.epoch-- },
	} {
		m := New(DefaultConfig())
		do(t, m, "register-broker", `{"broker_id": 1, "incarnation_id": "i", "endpoints": [], "clean_shutdown": true}`)
		do(t, m, "register-partitions", `{"topic_id": "`+aTopic+`", "topic_name": "a", "partitions": [{"partition": 0, "replicas": [1]}]}`)
		require.Contains(t, do(t, m, "unfence-broker", `{"broker_id": 1}`), noError)
		require.NoError(t, m.Invariants())
		damage(m.brokers[1], m.topics[aTopic].parts[0])
		m.watch()
		require.Error(t, m.Invariants(), name)
	}
}
