package api

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

// The leader's workers answer, whichever node is asked and whatever others have.
func TestContractOfWorkers(t *testing.T) {
	contractsWith(t, func(nodes []*served) {
		for i, s := range nodes {
			var reported int
			s.embedded.SetWorkers(Workers{
				RunOnce: map[string]func(context.Context) ([]WorkerTotal, error){
					"sweeper": func(context.Context) ([]WorkerTotal, error) {
						return []WorkerTotal{{"node", int64(i)}, {"reported", int64(reported)}}, nil
					},
					"broken":  func(context.Context) ([]WorkerTotal, error) { return nil, errors.New("a disk is on fire") },
					"refused": func(context.Context) ([]WorkerTotal, error) { return nil, ops.Errorf(ops.RequestTooLarge, "too much") }, // which no client tries again
				},
				ReportRemoteOffsets: func(offsets []ops.PruneLog) bool {
					reported = len(offsets)
					return reported < 2
				},
			})
		}
	}, func(t *testing.T, cp ControlPlane, _ *clock) {
		ctx, admin := t.Context(), cp.(Admin)
		offsets := []ops.PruneLog{{TopicID: testTopic, HighestRemoteOffset: 5}, {TopicID: testTopic, Partition: 1, HighestRemoteOffset: 6}}
		answer, err := admin.ReportRemoteOffsets(ctx, &ReportRemoteOffsetsRequest{Offsets: offsets})
		require.NoError(t, err)
		require.False(t, answer.Complete)
		answer, err = admin.ReportRemoteOffsets(ctx, &ReportRemoteOffsetsRequest{Offsets: offsets[:1]})
		require.NoError(t, err)
		require.True(t, answer.Complete)
		ran, err := admin.RunWorker(ctx, &RunWorkerRequest{Worker: "sweeper"})
		require.NoError(t, err)
		require.Equal(t, []WorkerTotal{{"node", 0}, {"reported", 1}}, ran.Totals, "the leader is the first node")

		_, err = admin.RunWorker(ctx, &RunWorkerRequest{})
		requireCode(t, err, ops.InvalidRequest)
		require.ErrorContains(t, err, "worker: must be given")
		_, err = admin.RunWorker(ctx, &RunWorkerRequest{Worker: "sweepr"})
		requireCode(t, err, ops.InvalidRequest)
		require.ErrorContains(t, err, `worker: "sweepr" is none of broken, refused, sweeper`)
		_, err = admin.RunWorker(ctx, &RunWorkerRequest{Worker: "broken"})
		requireCode(t, err, ops.Internal)
		require.NotContains(t, err.Error(), "fire")
		_, err = admin.RunWorker(ctx, &RunWorkerRequest{Worker: "refused"})
		requireCode(t, err, ops.RequestTooLarge)
		_, err = admin.ReportRemoteOffsets(ctx, &ReportRemoteOffsetsRequest{Offsets: make([]ops.PruneLog, 10_001)})
		requireCode(t, err, ops.RequestTooLarge)
		negative := []ops.PruneLog{{TopicID: testTopic, Partition: -1}}
		_, err = admin.ReportRemoteOffsets(ctx, &ReportRemoteOffsetsRequest{Offsets: negative})
		requireCode(t, err, ops.InvalidRequest)
	})
}

func TestNodeWithoutWorkers(t *testing.T) {
	nodes := three(t, nil)
	_, err := nodes[1].embedded.RunWorker(t.Context(), &RunWorkerRequest{Worker: "topic-purger"})
	requireCode(t, err, ops.InvalidRequest)
	require.ErrorContains(t, err, "runs no workers")
}
