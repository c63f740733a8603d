package store

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func collect[T any](t *testing.T, scan func(fn func(T) bool) error) []T {
	t.Helper()
	var all []T
	require.NoError(t, scan(func(v T) bool {
		all = append(all, v)
		return true
	}))
	return all
}

func TestTopicLifeCycle(t *testing.T) {
	s := openTest(t)
	a, b := TopicID{1}, TopicID{2}
	update(t, s, func(tx *WriteTx) {
		require.NoError(t, tx.PutTopic(a, Topic{Name: "x", Origin: OriginDiskless, Config: map[string]string{"k": "v", "a": "b"}}))
		for p := range int32(3) {
			require.NoError(t, tx.CreateLog(LogKey{a, p}, NewLog(4, 9)))
		}
	})
	view(t, s, func(tx *ReadTx) {
		id, ok, err := tx.TopicByName("x")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, a, id)
		top, _, err := tx.Topic(a)
		require.NoError(t, err)
		require.Equal(t, Topic{Name: "x", Origin: OriginDiskless, Logs: 3, Config: map[string]string{"k": "v", "a": "b"}}, top)
		l, ok, err := tx.LiveLog(LogKey{a, 1})
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, Log{ID: 2, LogStartOffset: 4, HighWatermark: 9, DisklessStartOffset: 9, RemoteLogStartOffset: Absent}, l)
	})
	update(t, s, func(tx *WriteTx) {
		n, err := tx.SoftDeleteTopic(a, 50)
		require.NoError(t, err)
		require.EqualValues(t, 3, n)
		n, err = tx.SoftDeleteTopic(a, 51)
		require.NoError(t, err)
		require.Zero(t, n, "deleted before")
		n, err = tx.SoftDeleteTopic(TopicID{9}, 51)
		require.NoError(t, err)
		require.Zero(t, n, "unknown")
		// The name is free at once.
		require.NoError(t, tx.PutTopic(b, Topic{Name: "x", Origin: OriginDiskless}))
		require.NoError(t, tx.CreateLog(LogKey{b, 0}, NewLog(0, 0)))
	})
	view(t, s, func(tx *ReadTx) {
		id, _, err := tx.TopicByName("x")
		require.NoError(t, err)
		require.Equal(t, b, id)
		_, ok, err := tx.LiveLog(LogKey{a, 1})
		require.NoError(t, err)
		require.False(t, ok)
		require.Equal(t, Totals{Topics: 1, LiveLogs: 1, DeletedLogs: 3}, tx.Meta().Totals)
	})
	update(t, s, func(tx *WriteTx) {
		require.ErrorIs(t, tx.DropLog(LogKey{b, 0}), ErrCorrupt, "live")
	})
	update(t, s, func(tx *WriteTx) {
		for p := range int32(3) {
			require.NoError(t, tx.DropLog(LogKey{a, p}))
		}
	})
	view(t, s, func(tx *ReadTx) {
		_, ok, err := tx.Topic(a)
		require.NoError(t, err)
		require.False(t, ok, "goes with its last log")
		require.Equal(t, Totals{Topics: 1, LiveLogs: 1}, tx.Meta().Totals)
	})
}

func TestTopicWithoutLogsGoesAtOnce(t *testing.T) {
	s := openTest(t)
	update(t, s, func(tx *WriteTx) {
		require.NoError(t, tx.PutTopic(TopicID{1}, Topic{Name: "x", Origin: OriginClassic}))
	})
	update(t, s, func(tx *WriteTx) {
		_, err := tx.SoftDeleteTopic(TopicID{1}, 5)
		require.NoError(t, err)
	})
	view(t, s, func(tx *ReadTx) {
		_, ok, err := tx.Topic(TopicID{1})
		require.NoError(t, err)
		require.False(t, ok)
		require.Zero(t, tx.Meta().Totals)
		require.Equal(t, Digest{}, tx.Meta().Digest)
	})
}

func TestScansOfTopicsAndLogs(t *testing.T) {
	s := openTest(t)
	scan := func(tx *ReadTx) {
		var ids []TopicID
		require.NoError(t, tx.Topics(TopicID{2}, func(id TopicID, top *Topic) (bool, error) {
			require.Equal(t, fmt.Sprint("t", id[0]), top.Name)
			ids = append(ids, id)
			return len(ids) < 2, nil
		}))
		require.Equal(t, []TopicID{{3}, {4}}, ids)
		var parts []int32
		require.NoError(t, tx.LogsOfTopic(TopicID{3}, 0, func(k LogKey, _ *Log) (bool, error) {
			parts = append(parts, k.Partition)
			return true, nil
		}))
		require.Equal(t, []int32{1, 300}, parts)
		require.NoError(t, tx.LogsOfTopic(TopicID{3}, 1<<31-1, func(LogKey, *Log) (bool, error) {
			t.Fatal("nothing is above the last partition")
			return false, nil
		}))
	}
	update(t, s, func(tx *WriteTx) {
		for i := range byte(6) {
			require.NoError(t, tx.PutTopic(TopicID{i}, Topic{Name: fmt.Sprint("t", i), Origin: OriginDiskless}))
			for _, p := range []int32{300, 0, 1} {
				require.NoError(t, tx.CreateLog(LogKey{TopicID{i}, p}, NewLog(0, 0)))
			}
		}
		scan(&tx.ReadTx) // staged rows are seen
	})
	view(t, s, scan)
}

func TestDeletedLogsOldestFirst(t *testing.T) {
	s := openTest(t)
	want := []DeletedLog{{-7, LogKey{TopicID{3}, 0}}, {5, LogKey{TopicID{1}, 0}}, {5, LogKey{TopicID{2}, 0}}, {5, LogKey{TopicID{2}, 1}}}
	update(t, s, func(tx *WriteTx) {
		for _, d := range want {
			if d.Key.Partition == 0 {
				require.NoError(t, tx.PutTopic(d.Key.Topic, Topic{Name: d.Key.Topic.String()}))
			}
			require.NoError(t, tx.CreateLog(d.Key, NewLog(0, 0)))
		}
		for _, d := range []DeletedLog{want[2], want[0], want[1]} {
			_, err := tx.SoftDeleteTopic(d.Key.Topic, d.DeletedAt)
			require.NoError(t, err)
		}
	})
	view(t, s, func(tx *ReadTx) {
		require.Equal(t, want, collect(t, func(fn func(DeletedLog) bool) error { return tx.DeletedLogs(nil, fn) }))
		require.Equal(t, want[2:], collect(t, func(fn func(DeletedLog) bool) error { return tx.DeletedLogs(&want[1], fn) }))
		between := DeletedLog{0, LogKey{}}
		require.Equal(t, want[1:], collect(t, func(fn func(DeletedLog) bool) error { return tx.DeletedLogs(&between, fn) }))
	})
}

func TestFileLifeCycle(t *testing.T) {
	s := openTest(t)
	empty := File{ID: 1, ObjectKey: "wal/empty", Format: 1, Reason: FileReasonProduce, UploaderBrokerID: -3, CommittedAt: 11, Size: 5}
	replay := Replay{Digest: [16]byte{7}, ClockMs: 11, Partitions: []ReplayPartition{{1, 2}}, Outcomes: []byte{0, 1},
		Duplicates: []ReplayDuplicate{{Batch: 1, AssignedOffset: 3, TimestampMs: -1}}}
	update(t, s, func(tx *WriteTx) {
		require.EqualValues(t, 1, tx.NextFileID())
		require.NoError(t, tx.CreateFile(empty, replay))
		f, ok, err := tx.FileByKey("wal/empty")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, FileDeleting, f.State, "a file without batches is marked at its commit")
		key, err := tx.ObjectKey(1)
		require.NoError(t, err)
		require.Equal(t, "wal/empty", key)
	})
	empty.State, empty.MarkedForDeletionAt = FileDeleting, 11
	view(t, s, func(tx *ReadTx) {
		deleting := func(before int64) []File {
			return collect(t, func(fn func(File) bool) error {
				return tx.DeletingFiles(before, func(f *File) bool { return fn(*f) })
			})
		}
		require.Equal(t, []File{empty}, deleting(12))
		require.Empty(t, deleting(11), "marked before, not at")
		got, ok, err := tx.Replay(1)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, replay, got)
		require.Equal(t, Totals{FilesDeleting: 1, Replays: 1}, tx.Meta().Totals)
		key, err := tx.ObjectKey(1)
		require.NoError(t, err)
		require.Equal(t, "wal/empty", key)
		_, err = tx.ObjectKey(2)
		require.ErrorIs(t, err, ErrCorrupt)
	})
	update(t, s, func(tx *WriteTx) { require.NoError(t, tx.ForgetFile(&empty)) })
	view(t, s, func(tx *ReadTx) {
		_, ok, err := tx.FileByKey("wal/empty")
		require.NoError(t, err)
		require.False(t, ok)
		_, ok, err = tx.Replay(1)
		require.NoError(t, err)
		require.False(t, ok)
		require.Zero(t, tx.Meta().Totals)
		require.Equal(t, Digest{}, tx.Meta().Digest)
	})
}

func TestFilesAfter(t *testing.T) {
	s := openTest(t)
	scan := func(tx *ReadTx) {
		ids := collect(t, func(fn func(uint64) bool) error {
			return tx.Files(2, func(f *File) bool { return fn(f.ID) })
		})
		require.Equal(t, []uint64{3, 4, 5}, ids)
		replays := collect(t, func(fn func([2]int64) bool) error {
			return tx.Replays(func(id uint64, clock int64) bool { return fn([2]int64{int64(id), clock}) })
		})
		require.Equal(t, [][2]int64{{1, 10}, {2, 20}, {3, 30}, {5, 50}}, replays)
	}
	update(t, s, func(tx *WriteTx) {
		for range 5 {
			id := tx.NextFileID()
			require.NoError(t, tx.CreateFile(File{ID: id, ObjectKey: fmt.Sprint(id)}, Replay{ClockMs: int64(id) * 10}))
		}
		require.NoError(t, tx.DropReplay(4))
		scan(&tx.ReadTx)
	})
	view(t, s, scan)
}

// A batch of entries can make and remove the same row before it reaches the file.
func TestRowsThatLiveWithinOneTransaction(t *testing.T) {
	s := openTest(t)
	k := LogKey{TopicID{1}, 0}
	update(t, s, func(tx *WriteTx) {
		require.NoError(t, tx.PutTopic(k.Topic, Topic{Name: "x"}))
		require.NoError(t, tx.CreateLog(k, NewLog(0, 0)))
		require.NoError(t, tx.PutProducer(1, 5, Producer{Epoch: 1}))
		require.NoError(t, tx.DropProducer(1, 5))
		id := tx.NextFileID()
		require.NoError(t, tx.CreateFile(File{ID: id, ObjectKey: "a"}, Replay{}))
		f, _, err := tx.FileByKey("a")
		require.NoError(t, err)
		require.NoError(t, tx.ForgetFile(&f))
		_, err = tx.SoftDeleteTopic(k.Topic, 3)
		require.NoError(t, err)
		require.NoError(t, tx.DropLog(k))
	})
	view(t, s, func(tx *ReadTx) {
		require.Zero(t, tx.Meta().Totals)
		require.Equal(t, Digest{}, tx.Meta().Digest)
		_, ok, err := tx.Producer(1, 5)
		require.NoError(t, err)
		require.False(t, ok)
	})
	// The same with a row that is in the file: removed, made again, removed.
	update(t, s, func(tx *WriteTx) {
		require.NoError(t, tx.PutTopic(k.Topic, Topic{Name: "x"}))
		require.NoError(t, tx.CreateLog(k, NewLog(0, 0)))
		require.NoError(t, tx.PutProducer(2, 5, Producer{Epoch: 1}))
	})
	update(t, s, func(tx *WriteTx) {
		require.NoError(t, tx.DropProducer(2, 5))
		require.NoError(t, tx.DropProducer(2, 5))
		require.NoError(t, tx.PutProducer(2, 5, Producer{Epoch: 2}))
		require.EqualValues(t, 1, tx.Meta().Totals.ProducerStates)
		require.NoError(t, tx.DropProducer(2, 5))
	})
	view(t, s, func(tx *ReadTx) {
		_, ok, err := tx.Producer(2, 5)
		require.NoError(t, err)
		require.False(t, ok)
		require.Zero(t, tx.Meta().Totals.ProducerStates)
	})
}

func TestProducers(t *testing.T) {
	s := openTest(t)
	key := LogKey{TopicID{1}, 0}
	var p Producer
	for i := range int32(7) {
		p.Remember(ProducerEntry{BaseSequence: i, LastSequence: i, AssignedOffset: int64(i) * 10, BatchMaxTimestamp: -1})
	}
	require.Equal(t, 5, p.Count)
	require.EqualValues(t, 2, p.Recent()[0].BaseSequence)
	require.EqualValues(t, 6, p.Recent()[4].BaseSequence)
	p.Epoch, p.UpdatedAt = 3, 77
	update(t, s, func(tx *WriteTx) {
		require.NoError(t, tx.PutTopic(key.Topic, Topic{Name: "x"}))
		for part := range int32(3) {
			require.NoError(t, tx.CreateLog(LogKey{key.Topic, part}, NewLog(0, 0)))
		}
		for _, at := range [][2]int64{{1, 4}, {2, 9}, {2, 0}, {2, 1 << 40}, {3, 0}} {
			require.NoError(t, tx.PutProducer(uint64(at[0]), at[1], p))
		}
		require.NoError(t, tx.PutProducer(3, 0, Producer{}))
	})
	scan := func(tx *ReadTx) {
		got, ok, err := tx.Producer(2, 9)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, p, got)
		require.Equal(t, []int64{0, 9, 1 << 40}, collect(t, func(fn func(int64) bool) error {
			return tx.ProducersOfLog(2, func(id int64, _ *Producer) bool { return fn(id) })
		}))
		all := func(log uint64, id int64) [][2]int64 {
			return collect(t, func(fn func([2]int64) bool) error {
				return tx.Producers(log, id, func(l uint64, id int64, _ *Producer) bool { return fn([2]int64{int64(l), id}) })
			})
		}
		require.Equal(t, [][2]int64{{1, 4}, {2, 0}, {2, 9}, {2, 1 << 40}, {3, 0}}, all(0, 0))
		require.Equal(t, [][2]int64{{2, 1 << 40}, {3, 0}}, all(2, 9))
		require.Equal(t, [][2]int64{{2, 1 << 40}, {3, 0}}, all(2, 10))
		require.EqualValues(t, 5, tx.Meta().Totals.ProducerStates)
	}
	view(t, s, scan)
	update(t, s, func(tx *WriteTx) { scan(&tx.ReadTx) })
}

func TestFences(t *testing.T) {
	s := openTest(t)
	type fence struct {
		key   string
		until int64
	}
	all := func() (fences []fence) {
		view(t, s, func(tx *ReadTx) {
			require.NoError(t, tx.Fences(func(key string, until int64) bool {
				fences = append(fences, fence{key, until})
				return true
			}))
			require.EqualValues(t, len(fences), tx.Meta().Totals.Fences)
		})
		return fences
	}
	update(t, s, func(tx *WriteTx) {
		require.NoError(t, tx.PutFence("a", 30))
		require.NoError(t, tx.PutFence("b", -20))
		require.NoError(t, tx.PutFence("c", 20))
		require.NoError(t, tx.PutFence("a", 40))
	})
	require.Equal(t, []fence{{"b", -20}, {"c", 20}, {"a", 40}}, all())
	update(t, s, func(tx *WriteTx) {
		require.NoError(t, tx.PutFence("a", 10)) // whatever was set before
		require.NoError(t, tx.DropFence("b"))
		require.NoError(t, tx.DropFence("unknown"))
	})
	require.Equal(t, []fence{{"a", 10}, {"c", 20}}, all())
	view(t, s, func(tx *ReadTx) {
		until, ok, err := tx.Fence("a")
		require.NoError(t, err)
		require.True(t, ok)
		require.EqualValues(t, 10, until)
		_, ok, err = tx.Fence("b")
		require.NoError(t, err)
		require.False(t, ok)
	})
}
