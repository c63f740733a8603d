package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A file without brokers and registrations is what releases wrote that do not know
// them: the same buckets, and no field more in its rows.
func TestStateWithoutBrokersIsAsBefore(t *testing.T) {
	s := openTest(t)
	topic := Topic{Name: "t", Origin: OriginDiskless}
	update(t, s, func(tx *WriteTx) { require.NoError(t, tx.PutTopic(TopicID{1}, topic)) })
	view(t, s, func(tx *ReadTx) {
		for b, row := range bucketTable {
			require.Equal(t, row.late, tx.bucket(bucket(b)) == nil, bucket(b))
		}
		require.Equal(t, byte(0), appendTopic(nil, &topic)[len(appendTopic(nil, &topic))-1], "ends in the number of config keys")
		meta := tx.Meta()
		require.Equal(t, byte(0), appendMeta(nil, &meta)[len(appendMeta(nil, &meta))-1], "ends in the number of fences")
		_, ok, err := tx.Registration(LogKey{TopicID{1}, 0})
		require.NoError(t, err)
		require.False(t, ok)
		require.NoError(t, tx.ReplicasOf(1, LogKey{}, func(LogKey, bool) bool { t.Fatal("none"); return false }))
		require.NoError(t, tx.Brokers(func(int32, *Broker) bool { t.Fatal("none"); return false }))
	})
}

// The index of replicas and the totals follow every change of a registration.
func TestRegistrationLifeCycle(t *testing.T) {
	s := openTest(t)
	a, b := LogKey{TopicID{1}, 0}, LogKey{TopicID{1}, 7}
	plain := Registration{Replicas: []int32{2, 1}, ISR: []int32{2, 1}, Leader: 2, ClassicToDisklessStartOffset: NoSwitch, DisklessLeaderEpoch: -1, SealedBy: -1}
	update(t, s, func(tx *WriteTx) {
		require.NoError(t, tx.PutTopic(a.Topic, Topic{Name: "t", Origin: OriginClassic}))
		require.NoError(t, tx.PutRegistration(b, plain))
		require.NoError(t, tx.PutRegistration(a, plain))
	})
	replicas := func(broker int32, from LogKey) (found map[LogKey]bool) {
		found = map[LogKey]bool{}
		view(t, s, func(tx *ReadTx) {
			require.NoError(t, tx.ReplicasOf(broker, from, func(k LogKey, inISR bool) bool {
				found[k] = inISR
				return true
			}))
		})
		return found
	}
	require.Equal(t, map[LogKey]bool{a: true, b: true}, replicas(1, LogKey{}))
	require.Equal(t, map[LogKey]bool{b: true}, replicas(1, LogKey{TopicID{1}, 1}))
	require.Empty(t, replicas(3, LogKey{}))

	shrunk := plain
	shrunk.ISR, shrunk.Leader = []int32{1}, NoLeader
	update(t, s, func(tx *WriteTx) {
		require.NoError(t, tx.PutRegistration(a, shrunk))
		require.EqualValues(t, 1, tx.Meta().Totals.Leaderless)
	})
	require.Equal(t, map[LogKey]bool{a: false, b: true}, replicas(2, LogKey{}))
	view(t, s, func(tx *ReadTx) {
		got, ok, err := tx.Registration(a)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, shrunk, got)
		require.Equal(t, Totals{Topics: 1, Registrations: 2, Leaderless: 1, ByStage: [Stages]int64{StageClassic: 2}}, tx.Meta().Totals)
	})
	requireTopicGone(t, s, a.Topic)
	require.Empty(t, replicas(2, LogKey{}))
}

// requireTopicGone deletes a topic without logs, after which nothing is left.
func requireTopicGone(t *testing.T, s *Store, id TopicID) {
	t.Helper()
	update(t, s, func(tx *WriteTx) {
		_, err := tx.SoftDeleteTopic(id, 5)
		require.NoError(t, err)
	})
	view(t, s, func(tx *ReadTx) {
		require.Zero(t, tx.Meta().Totals)
		require.Equal(t, Digest{}, tx.Meta().Digest)
	})
}

// The registrations of a topic go when it is deleted, though its logs wait.
func TestDeletedTopicLosesItsRegistrations(t *testing.T) {
	s := openTest(t)
	update(t, s, func(tx *WriteTx) { sampleSwitch(t, tx) })
	k := LogKey{TopicID{0xcc, 15: 3}, 2}
	update(t, s, func(tx *WriteTx) {
		_, err := tx.SoftDeleteTopic(k.Topic, 5)
		require.NoError(t, err)
	})
	view(t, s, func(tx *ReadTx) {
		require.Equal(t, Totals{DeletedLogs: 1, Brokers: 2}, tx.Meta().Totals)
		producers, err := tx.SealProducers(k)
		require.NoError(t, err)
		require.Empty(t, producers)
		top, _, err := tx.Topic(k.Topic)
		require.NoError(t, err)
		require.Zero(t, top.Registrations)
	})
}

// What the rules never make is a problem that Check names.
func TestCheckOfRegistrations(t *testing.T) {
	k := LogKey{TopicID{0xcc, 15: 3}, 2}
	for name, c := range map[string]struct {
		damage func(t *testing.T, tx *WriteTx)
		want   string
	}{
		"leader outside the ISR": {func(t *testing.T, tx *WriteTx) {
			alter(t, tx, k, func(r *Registration) { r.Leader = 1 })
		}, "the leader is not in the ISR"},
		"ISR out of order": {func(t *testing.T, tx *WriteTx) {
			alter(t, tx, k, func(r *Registration) { r.ISR = []int32{300, 3} })
		}, "the ISR is not some of the replicas"},
		"seal apart from the log": {func(t *testing.T, tx *WriteTx) {
			alter(t, tx, k, func(r *Registration) { r.ClassicToDisklessStartOffset = 39 })
		}, "the seal is 39, the log's first diskless offset 40"},
		"log without a seal": {func(t *testing.T, tx *WriteTx) {
			alter(t, tx, k, func(r *Registration) {
				r.ClassicToDisklessStartOffset, r.ClassicPrefixInRemoteStorage, r.DisklessLeaderEpoch = SwitchPending, false, -1
			})
		}, "the seal is -2, and the log's existence true"},
		"replica missing in the index": {func(t *testing.T, tx *WriteTx) {
			require.NoError(t, tx.delete(bucketReplicas, appendReplicaKey(nil, 3, k)))
		}, "bucket replicas, key"},
		"epoch given twice": {func(t *testing.T, tx *WriteTx) {
			require.NoError(t, tx.PutBroker(9, Broker{Epoch: 1}))
		}, "epoch 1 is used twice"},
		"producers without a seal": {func(t *testing.T, tx *WriteTx) {
			require.NoError(t, tx.PutSealProducers(LogKey{k.Topic, 3}, []SealProducer{{}}))
		}, "there is no seal"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.TempDir()+"/state.db", Options{Sync: SyncNever})
			require.NoError(t, err)
			update(t, s, func(tx *WriteTx) { sampleSwitch(t, tx) })
			update(t, s, func(tx *WriteTx) { c.damage(t, tx) })
			require.NoError(t, s.Close())
			report, err := Check(s.path)
			require.NoError(t, err)
			require.ErrorContains(t, report.Err(), c.want)
		})
	}
}

func alter(t *testing.T, tx *WriteTx, k LogKey, fn func(*Registration)) {
	r, ok, err := tx.Registration(k)
	require.NoError(t, err)
	require.True(t, ok)
	fn(&r)
	require.NoError(t, tx.PutRegistration(k, r))
}
