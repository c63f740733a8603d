package switchover_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
	switchover "github.com/cpnode/cpnode/switch"
	"github.com/cpnode/cpnode/switch/remotestore"
	"github.com/cpnode/cpnode/switch/segmentlog"
)

// The whole protocol on a real control plane, with three brokers in one process: classic
// records, the switch, diskless records, upload, the flag, and each broker deletes its
// prefix, whose payloads are overwritten at the flag. Then every broker serves all of it.
func TestWholeSwitch(t *testing.T) {
	remote, err := remotestore.Open(t.TempDir())
	require.NoError(t, err)
	defer remote.Close()
	c := newCluster(t, remote)
	c.reaches(ops.StateClassic)
	want := c.produceClassic(60)

	c.begin()
	sealed := c.reaches(ops.StatePrefixWaitingForUpload)
	require.EqualValues(t, 60, sealed.ClassicToDisklessStartOffset)
	_, err = c.members[0].Append(ref, 1, []byte("late"))
	require.ErrorIs(t, err, switchover.ErrSealed)
	for i := range 20 {
		record := fmt.Sprintf("diskless %d", i)
		require.EqualValues(t, 60+i, c.produceDiskless(record))
		want = append(want, record)
	}

	c.upload()
	flagged := c.reaches(ops.StatePrefixInRemoteStorage)
	require.Equal(t, []int32{1, 2, 3}, flagged.ISR)
	for _, m := range c.members {
		eventually(t, "the prefix is deleted, and what follows consolidated", func() bool {
			s, err := m.Status(ref)
			return err == nil && s.LocalLogStart >= 60 && s.End == 80
		})
		require.Positive(t, m.tampered.Load(), "broker %d: bytes that were overwritten", m.id)
		got, tiers := m.consumeAll(t, 80)
		require.Equal(t, want, got, "broker %d", m.id)
		require.Equal(t, []switchover.Tier{switchover.TierRemote, switchover.TierLocal}, tiers)
	}
}

// The same with a remote store that keeps no bytes: what the test above shows, it shows
// because the records are there.
func TestWholeSwitchNeedsTheRemoteBytes(t *testing.T) {
	remote, err := remotestore.OpenWithoutBytes(t.TempDir())
	require.NoError(t, err)
	defer remote.Close()
	c := newCluster(t, remote)
	c.reaches(ops.StateClassic)
	c.produceClassic(60)
	c.begin()
	c.reaches(ops.StatePrefixWaitingForUpload)
	c.upload()
	c.reaches(ops.StatePrefixInRemoteStorage)
	_, err = c.members[0].Gate.Read(t.Context(), switchover.ReadRequest{Ref: ref, MaxBytes: 1, Replica: switchover.Consumer})
	require.ErrorIs(t, err, remotestore.ErrLost)
}

// A switch that cannot seal, since a follower lacks a record, is aborted and armed again.
func TestWholeAbortAndRearm(t *testing.T) {
	remote, err := remotestore.Open(t.TempDir())
	require.NoError(t, err)
	defer remote.Close()
	c := newCluster(t, remote)
	c.reaches(ops.StateClassic)
	c.produceClassic(60)
	leader, follower := c.members[0], c.members[2]
	follower.held.Store(true)
	c.append(60)
	c.begin()
	c.begin() // again: it has begun
	c.reaches(ops.StateSwitchPending)
	_, err = leader.Append(ref, 1, []byte("late"))
	require.ErrorIs(t, err, switchover.ErrSealed)

	c.abort()
	c.reaches(ops.StateClassic)
	c.append(61)
	c.begin() // no partition is left in the switch: it begins anew
	c.reaches(ops.StateSwitchPending)
	follower.held.Store(false)
	sealed := c.reaches(ops.StatePrefixWaitingForUpload)
	require.EqualValues(t, 62, sealed.ClassicToDisklessStartOffset)
}

func (c *cluster) begin() {
	answer, err := c.BeginSwitch(c.t.Context(), &ops.BeginSwitchRequest{TopicID: ref.TopicID})
	require.NoError(c.t, err)
	require.Equal(c.t, ops.None, answer.Error, answer.Message)
}

func (c *cluster) abort() {
	answer, err := c.OverrideSwitch(c.t.Context(), &ops.OverrideSwitchRequest{TopicID: ref.TopicID, SealOffset: store.NoSwitch})
	require.NoError(c.t, err)
	require.Equal(c.t, ops.None, answer.Error, answer.Message)
}

// append has the leader take one classic record, at that offset.
func (c *cluster) append(offset int64) {
	base, err := c.members[0].Append(ref, 1, fmt.Append(nil, "classic ", offset))
	require.NoError(c.t, err)
	require.Equal(c.t, offset, base)
}

// produceClassic appends records by the leader, until all brokers have them.
func (c *cluster) produceClassic(n int) (records []string) {
	for i := range n {
		c.append(int64(i))
		records = append(records, fmt.Sprint("classic ", i))
	}
	eventually(c.t, "all of it is committed", func() bool {
		s, err := c.members[0].Status(ref)
		return err == nil && s.HighWatermark == int64(n)
	})
	return records
}

// overwrite writes other payloads of the same size into a segment, with right checksums,
// and answers how many batches it overwrote.
func overwrite(name string) (batches int64) {
	content, err := os.ReadFile(name)
	if err != nil {
		return 0 // deleted meanwhile
	}
	var tampered []byte
	for r := segmentlog.NewReader(name, bytes.NewReader(content), 0); ; {
		b, err := r.Next()
		if err != nil {
			break // the end, or cut meanwhile
		}
		b.Payload = bytes.Repeat([]byte("X"), len(b.Payload))
		tampered = segmentlog.AppendFrame(tampered, b)
		batches++
	}
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return 0
	}
	defer file.Close()
	if _, err := file.WriteAt(tampered, 0); err != nil {
		return 0
	}
	return batches
}
