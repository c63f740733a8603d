package api

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

// The leader's workers answer, whichever node is asked and whatever others have.
func TestContractOfWorkers(t *testing.T) {
	contractsWith(t, func(nodes []*served) {
		for i, s := range nodes {
			var reported, starts int
			s.embedded.SetWorkers(Workers{
				RunOnce: map[string]func(context.Context) ([]WorkerTotal, error){
					"sweeper": func(context.Context) ([]WorkerTotal, error) {
						return []WorkerTotal{{"node", int64(i)}, {"reported", int64(reported)}, {"starts", int64(starts)}}, nil
					},
					"broken": func(context.Context) ([]WorkerTotal, error) { return nil, errors.New("a disk is on fire") },
					"half": func(context.Context) ([]WorkerTotal, error) {
						return []WorkerTotal{{"deleted", 7}}, fmt.Errorf("then: %w", ops.Errorf(ops.OutcomeUnknown, "lost"))
					},
					"failed": func(context.Context) ([]WorkerTotal, error) {
						return []WorkerTotal{{"deleted", 0}, {"failed", 7}}, errors.New("the store refuses")
					},
					"refused": func(context.Context) ([]WorkerTotal, error) { return nil, ops.Errorf(ops.RequestTooLarge, "too much") }, // which no client tries again
				},
				ReportRemoteOffsets: func(offsets []ops.PruneLog) bool {
					reported = len(offsets)
					return reported < 2
				},
				ReportLogStarts: func(reported []ops.AdvanceLogStart) bool {
					starts = len(reported)
					return starts < 2
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
		logStarts := []ops.AdvanceLogStart{{TopicID: testTopic, RemoteLogStartOffset: 5}, {TopicID: testTopic, Partition: 1, RemoteLogStartOffset: 6}}
		answer, err = admin.ReportRemoteOffsets(ctx, &ReportRemoteOffsetsRequest{Offsets: offsets[:1], LogStarts: logStarts})
		require.NoError(t, err)
		require.False(t, answer.Complete)
		ran, err := admin.RunWorker(ctx, &RunWorkerRequest{Worker: "sweeper"})
		require.NoError(t, err)
		require.Equal(t, &RunWorkerResponse{[]WorkerTotal{{"node", 0}, {"reported", 1}, {"starts", 2}}, ops.None, ""}, ran, "the leader is the first node")

		ran, err = admin.RunWorker(ctx, &RunWorkerRequest{Worker: "half"})
		require.NoError(t, err)
		require.Equal(t, &RunWorkerResponse{[]WorkerTotal{{"deleted", 7}}, ops.OutcomeUnknown, "then: OUTCOME_UNKNOWN: lost"}, ran)
		ran, err = admin.RunWorker(ctx, &RunWorkerRequest{Worker: "failed"})
		require.NoError(t, err)
		require.Equal(t, &RunWorkerResponse{[]WorkerTotal{{"deleted", 0}, {"failed", 7}}, ops.Internal, "the store refuses"}, ran)

		_, err = admin.RunWorker(ctx, &RunWorkerRequest{})
		requireCode(t, err, ops.InvalidRequest)
		require.ErrorContains(t, err, "worker: must be given")
		_, err = admin.RunWorker(ctx, &RunWorkerRequest{Worker: "sweepr"})
		requireCode(t, err, ops.InvalidRequest)
		require.ErrorContains(t, err, `worker: "sweepr" is none of broken, failed, half, refused, sweeper`)
		_, err = admin.RunWorker(ctx, &RunWorkerRequest{Worker: "broken"})
		requireCode(t, err, ops.Internal)
		require.NotContains(t, err.Error(), "fire")
		_, err = admin.RunWorker(ctx, &RunWorkerRequest{Worker: "refused"})
		requireCode(t, err, ops.RequestTooLarge)
		_, err = admin.ReportRemoteOffsets(ctx, &ReportRemoteOffsetsRequest{Offsets: make([]ops.PruneLog, 9000), LogStarts: make([]ops.AdvanceLogStart, 1001)})
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

// A leader that runs some workers refuses what is for others.
func TestReportsThatNobodyTakesAreRefused(t *testing.T) {
	s := single(t, nil)
	s.embedded.SetWorkers(Workers{})
	for want, r := range map[string]*ReportRemoteOffsetsRequest{
		"offsets: the leader, ":    {Offsets: []ops.PruneLog{{TopicID: testTopic}}},
		"log_starts: the leader, ": {LogStarts: []ops.AdvanceLogStart{{TopicID: testTopic}}},
	} {
		_, err := s.embedded.ReportRemoteOffsets(t.Context(), r)
		requireCode(t, err, ops.InvalidRequest)
		require.ErrorContains(t, err, want)
	}
}
