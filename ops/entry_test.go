package ops

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/store"
)

var update = flag.Bool("update", false, "write the golden entries of commands that have none yet")

const goldenEntries = "testdata/entries.txt"

var idA, idB = store.TopicID{0xa, 15: 1}, store.TopicID{0xb, 15: 2}

// sampleCommands has one of each command, every field set, no two alike.
func sampleCommands() []Command {
	key := store.LogKey{Topic: idA, Partition: 3}
	return []Command{
		&advanceLogStarts{[]AdvanceLogStart{{idA, 1, 5}, {idB, math.MaxInt32, math.MaxInt64}}},
		&checkpointDigest{},
		&commitFile{coalesce: true, replayRetentionMs: 86_400_000, request: CommitFileRequest{ObjectKey: "wal/1", Format: 1, UploaderBrokerID: 4, FileSize: 300, Batches: []CommitBatch{
			{TopicID: idA, Partition: 1, Magic: 2, ByteOffset: 10, ByteSize: 20, BaseOffset: 3, LastOffset: 5, TimestampType: 1, BatchMaxTimestamp: 1_700_000_000_000, ProducerID: 7, ProducerEpoch: 8, BaseSequence: 9, LastSequence: 11},
			{TopicID: idB, Partition: 2, Magic: 2, ByteOffset: 30, ByteSize: 270, TimestampType: -1, BatchMaxTimestamp: -1, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1}}}},
		&createTopic{topic: CreateTopic{TopicID: idA, TopicName: "a", FirstPartition: 1, NumPartitions: 4, Config: map[string]string{"retention.ms": "5", "cleanup.policy": "delete"}}, maxPartitions: 10_000},
		&deleteFiles{keys: []string{"wal/1", "wal/2"}, fenceMs: 600_000},
		&deleteRecords{items: []DeleteRecords{{idA, 1, -1}, {idB, 2, 300}}, rows: 500},
		&deleteTopic{id: idA},
		&retainLog{log: key, bytes: 1000, ms: -1, asOfMs: 1_700_000_000_000, maxBatches: 20},
		&dropFences{asOfMs: 1_700_000_000_000, rows: 30},
		&dropIdleProducers{idleBefore: 1_700_000_000_000, producers: []producerRef{{1, 2}, {math.MaxUint64, -3}}},
		&dropReplays{asOfMs: 1_700_000_000_000, retentionMs: 86_400_000, rows: 40},
		&initLogs{maxPartitions: 10_000, items: []InitLog{{TopicID: idA, TopicName: "a", Partition: 1, LogStartOffset: 2, DisklessStartOffset: 30,
			ProducerStates: []ProducerState{{ProducerID: 1, ProducerEpoch: 2, BaseSequence: 3, LastSequence: 4, AssignedOffset: 5, BatchMaxTimestamp: 6}}}}},
		&fenceFile{key: "wal/1", fence: true, fenceMs: 604_800_000},
		&pruneLog{log: key, highestRemote: 50, maxBatches: 60},
		&purgeLogs{empty: true, after: beforeAllLogs, end: store.DeletedLog{DeletedAt: 1_700_000_000_000, Key: key}, left: math.MaxInt64, rows: 70},
		&raiseFeatureLevel{level: 300},
		&setEventHistory{events: 100_000},
		&advanceBroker{brokerID: 3, rows: 90},
		&alterPartition{AlterPartitionRequest{TopicID: idA, Partition: 1, BrokerID: 2, LeaderEpoch: 3, PartitionEpoch: 4, NewISR: []ISRMember{{2, 5}, {math.MaxInt32, math.MaxInt64}}}},
		&beginSwitch{BeginSwitchRequest{idA}},
		&heartbeat{unfenceBroker{brokerID: 3, epoch: 4, rows: 91}},
		&commitPrefixes{[]CommitPrefix{{idA, 1, 2, 3, 4, 50}, {idB, 2, 3, 4, 5, -1}}},
		&commitSeals{[]CommitSeal{{TopicID: idA, Partition: 1, BrokerID: 2, LeaderEpoch: 3, LogStartOffset: 4, DisklessStartOffset: 50,
			ProducerStates: []ProducerState{{ProducerID: 1, ProducerEpoch: 2, BaseSequence: 3, LastSequence: 4, AssignedOffset: 5, BatchMaxTimestamp: 6}}}}},
		&electLeader{ElectLeaderRequest{idA, 1, ElectionUnclean}},
		&fenceBroker{brokerID: 3, epoch: -1, rows: 92},
		&overrideSwitch{OverrideSwitchRequest{TopicID: idA, Partition: 1, SealOffset: -2, LogStartOffset: 3, LogEndOffset: 4, ClearProducerStates: true}},
		&registerBroker{RegisterBrokerRequest{BrokerID: 3, IncarnationID: "i", Rack: "r", Endpoints: []string{"a:1", "b:2"}, CleanShutdown: true}, 93},
		&registerPartitions{RegisterPartitionsRequest{TopicID: idA, TopicName: "a", Diskless: true, Config: map[string]string{"remote.storage.enable": "true"},
			Partitions: []RegisterPartition{{1, []int32{2, 3}}, {4, []int32{5}}}}, 10_000},
		&unfenceBroker{brokerID: 3, epoch: -1, rows: 94},
		&repairLogs{[]RepairLog{{idA, 1, 80}, {idB, 2, 0}}},
	}
}

func TestSamplesCoverEveryCommand(t *testing.T) {
	ops := map[string]bool{}
	for _, cmd := range sampleCommands() {
		ops[cmd.Op()] = true
	}
	for _, op := range registry {
		require.Equal(t, op.IsWrite(), ops[op.Name], op.Name)
	}
}

func TestEntriesDecodeToWhatWasEncoded(t *testing.T) {
	for _, cmd := range sampleCommands() {
		data, err := Encode(cmd, 12345)
		require.NoError(t, err)
		e, err := Decode(data)
		require.NoError(t, err, cmd.Op())
		if c, ok := cmd.(*commitFile); ok { // the digest is the same before the log and behind it
			_, err := c.requestDigest()
			require.NoError(t, err)
		}
		require.Equal(t, Entry{NowMs: 12345, Command: cmd}, e)
	}
}

// The bytes of entries are in the logs of running clusters: a release decodes
// all that were ever written, and writes the latest.
func TestGoldenEntries(t *testing.T) {
	if *update {
		appendGoldenEntries(t)
	}
	golden := readGoldenEntries(t)
	for _, cmd := range sampleCommands() {
		data, err := Encode(cmd, 1_700_000_000_123)
		require.NoError(t, err)
		require.NotEmpty(t, golden[cmd.Op()], "%s has no golden entry: run with -update", cmd.Op())
		require.Equal(t, golden[cmd.Op()][len(golden[cmd.Op()])-1], hex.EncodeToString(data), cmd.Op())
	}
	for op, entries := range golden {
		for _, text := range entries {
			data, err := hex.DecodeString(text)
			require.NoError(t, err)
			e, err := Decode(data)
			require.NoError(t, err, op)
			require.Equal(t, op, e.Command.Op())
		}
	}
}

// readGoldenEntries is the entries of each operation, oldest format first.
func readGoldenEntries(t *testing.T) map[string][]string {
	data, err := os.ReadFile(goldenEntries)
	require.NoError(t, err)
	golden := map[string][]string{}
	for lines := bufio.NewScanner(strings.NewReader(string(data))); lines.Scan(); {
		op, entry, ok := strings.Cut(lines.Text(), " ")
		require.True(t, ok)
		golden[op] = append(golden[op], entry)
	}
	return golden
}

func appendGoldenEntries(t *testing.T) {
	golden := map[string][]string{}
	if _, err := os.Stat(goldenEntries); err == nil {
		golden = readGoldenEntries(t)
	}
	f, err := os.OpenFile(goldenEntries, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	for _, cmd := range sampleCommands() {
		data, err := Encode(cmd, 1_700_000_000_123)
		require.NoError(t, err)
		text := hex.EncodeToString(data)
		if old := golden[cmd.Op()]; len(old) == 0 || old[len(old)-1] != text {
			_, err := fmt.Fprintln(f, cmd.Op(), text)
			require.NoError(t, err)
		}
	}
	require.NoError(t, f.Close())
}

func TestDamagedEntriesAreRefused(t *testing.T) {
	for _, cmd := range sampleCommands() {
		data, err := Encode(cmd, 1)
		require.NoError(t, err)
		for i := range data {
			damaged := append([]byte(nil), data...)
			damaged[i] ^= 0x10
			_, err := Decode(damaged)
			require.ErrorIs(t, err, ErrEntry, "%s, byte %d", cmd.Op(), i)
			_, err = Decode(data[:i])
			require.ErrorIs(t, err, ErrEntry, "%s cut at %d", cmd.Op(), i)
			_, err = Decode(sealed(data[entryHeader:max(i, entryHeader)]))
			require.ErrorIs(t, err, ErrEntry, "%s cut at %d with a right checksum", cmd.Op(), i)
		}
		_, err = Decode(sealed(append(append([]byte(nil), data[entryHeader:]...), 0)))
		require.ErrorContains(t, err, "trailing bytes")
	}
}

// What this release does not know stops the node instead of being skipped.
func TestUnknownEntriesAreRefused(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{"\x94\x02\xabcommit-file\x01\x93", "command version 2"},
		{"\x94\x01\xa1x\x01\x90", `unknown operation "x"`},
		{"\x94\x01\xacfind-batches\x01\x90", `unknown operation "find-batches"`},
		{"\x95\x01\xaddelete-topics\x01\x91\xc4\x10" + strings.Repeat("a", 16) + "\x01", "fields that this release does not know"},
		{"\x94\x01\xaddelete-topics\x01\x92\xc4\x10" + strings.Repeat("a", 16) + "\x01", "fields that this release does not know"},
		{"\x94\x01\xaddelete-topics\x01\x90", "array is too short"},
		{"\x94\x01\xaddelete-topics\x01\x91\xc4\x0f" + strings.Repeat("a", 16), "15 bytes instead of 16"},
		{"\x94\x01\xacdelete-files\x01\x92\xdd\xff\xff\xff\xff\x01", "declared length exceeds the entry"},
		{"\x94\x01\xdb\xff\xff\xff\xff", "declared length exceeds the entry"},
	} {
		_, err := Decode(sealed([]byte(c.body)))
		require.ErrorContains(t, err, c.want)
	}
	_, err := Decode([]byte{9, 0, 0, 0, 0, 0})
	require.ErrorContains(t, err, "version 9, this release knows 1")
}

// sealed puts the frame of an entry around a body.
func sealed(body []byte) []byte {
	data := append([]byte{entryVersion, 0, 0, 0, 0}, body...)
	binary.BigEndian.PutUint32(data[1:], crc32.Checksum(body, castagnoli))
	return data
}
