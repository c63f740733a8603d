package api

import (
	"context"

	"github.com/cpnode/cpnode/ops"
)

// ControlPlane is every operation of the control plane, a method each; the package
// ops documents their requests and answers. [Stale], [MinIndex] and [MaxStaleness]
// are for the reads, [Observe] is for all.
//
// A field that a client may leave out has its default over HTTP only: in Go it is
// what it is set to. Start from wire.Defaults where that matters: the producer
// fields of ops.CommitBatch are -1 for a batch that has no idempotent producer.
type ControlPlane interface {
	CreateTopics(context.Context, *ops.CreateTopicsRequest, ...Option) (*ops.CreateTopicsResponse, error)
	CommitFile(context.Context, *ops.CommitFileRequest, ...Option) (*ops.CommitFileResponse, error)
	FindBatches(context.Context, *ops.FindBatchesRequest, ...Option) (*ops.FindBatchesResponse, error)
	ListOffsets(context.Context, *ops.ListOffsetsRequest, ...Option) (*ops.ListOffsetsResponse, error)
	DeleteRecords(context.Context, *ops.DeleteRecordsRequest, ...Option) (*ops.DeleteRecordsResponse, error)
	DeleteTopics(context.Context, *ops.DeleteTopicsRequest, ...Option) (*ops.DeleteTopicsResponse, error)
	GetLogInfo(context.Context, *ops.GetLogInfoRequest, ...Option) (*ops.GetLogInfoResponse, error)
	GetProducerState(context.Context, *ops.GetProducerStateRequest, ...Option) (*ops.GetProducerStateResponse, error)
	GetCrossTierLogStart(context.Context, *ops.GetCrossTierLogStartRequest, ...Option) (*ops.GetCrossTierLogStartResponse, error)
	PurgeDeletedLogs(context.Context, *ops.PurgeDeletedLogsRequest, ...Option) (*ops.PurgeDeletedLogsResponse, error)
	PruneDisklessLogs(context.Context, *ops.PruneDisklessLogsRequest, ...Option) (*ops.PruneDisklessLogsResponse, error)
	EnforceRetention(context.Context, *ops.EnforceRetentionRequest, ...Option) (*ops.EnforceRetentionResponse, error)
	GetFilesToDelete(context.Context, *ops.GetFilesToDeleteRequest, ...Option) (*ops.GetFilesToDeleteResponse, error)
	DeleteFiles(context.Context, *ops.DeleteFilesRequest, ...Option) (*ops.DeleteFilesResponse, error)
	IsSafeToDeleteFile(context.Context, *ops.IsSafeToDeleteFileRequest, ...Option) (*ops.IsSafeToDeleteFileResponse, error)
	AdvanceCrossTierLogStart(context.Context, *ops.AdvanceCrossTierLogStartRequest, ...Option) (*ops.AdvanceCrossTierLogStartResponse, error)
	InitDisklessLog(context.Context, *ops.InitDisklessLogRequest, ...Option) (*ops.InitDisklessLogResponse, error)
	RepairDisklessLog(context.Context, *ops.RepairDisklessLogRequest, ...Option) (*ops.RepairDisklessLogResponse, error)
	ExpireProducers(context.Context, *ops.ExpireProducersRequest, ...Option) (*ops.ExpireProducersResponse, error)
	ExpireFences(context.Context, *ops.ExpireFencesRequest, ...Option) (*ops.ExpireFencesResponse, error)
	ExpireReplays(context.Context, *ops.ExpireReplaysRequest, ...Option) (*ops.ExpireReplaysResponse, error)
	RegisterBroker(context.Context, *ops.RegisterBrokerRequest, ...Option) (*ops.RegisterBrokerResponse, error)
	BrokerHeartbeat(context.Context, *ops.BrokerHeartbeatRequest, ...Option) (*ops.BrokerHeartbeatResponse, error)
	FenceBroker(context.Context, *ops.FenceBrokerRequest, ...Option) (*ops.FenceBrokerResponse, error)
	UnfenceBroker(context.Context, *ops.UnfenceBrokerRequest, ...Option) (*ops.UnfenceBrokerResponse, error)
	RegisterPartitions(context.Context, *ops.RegisterPartitionsRequest, ...Option) (*ops.RegisterPartitionsResponse, error)
	AlterPartition(context.Context, *ops.AlterPartitionRequest, ...Option) (*ops.AlterPartitionResponse, error)
	ElectLeader(context.Context, *ops.ElectLeaderRequest, ...Option) (*ops.ElectLeaderResponse, error)
	BeginSwitch(context.Context, *ops.BeginSwitchRequest, ...Option) (*ops.BeginSwitchResponse, error)
	CommitSeal(context.Context, *ops.CommitSealRequest, ...Option) (*ops.CommitSealResponse, error)
	CommitPrefixInRemoteStorage(context.Context, *ops.CommitPrefixInRemoteStorageRequest, ...Option) (*ops.CommitPrefixInRemoteStorageResponse, error)
	OverrideSwitch(context.Context, *ops.OverrideSwitchRequest, ...Option) (*ops.OverrideSwitchResponse, error)
	DescribePartitions(context.Context, *ops.DescribePartitionsRequest, ...Option) (*ops.DescribePartitionsResponse, error)
	ListTopics(context.Context, *ops.ListTopicsRequest, ...Option) (*ops.ListTopicsResponse, error)
	DescribeTopic(context.Context, *ops.DescribeTopicRequest, ...Option) (*ops.DescribeTopicResponse, error)
	ListFiles(context.Context, *ops.ListFilesRequest, ...Option) (*ops.ListFilesResponse, error)
}

// Operations are the methods of [Embedded] and [Client], which differ only in how
// a call is carried out.
type Operations struct{ by caller }

// caller carries out one call. Its answer is what the operation's NewResponse
// makes.
type caller interface {
	do(ctx context.Context, op string, req ops.Request, opts []Option) (any, error)
}

func do[Response any](ctx context.Context, by caller, op string, req ops.Request, opts []Option) (*Response, error) {
	answer, err := by.do(ctx, op, req, opts)
	if err != nil {
		return nil, err
	}
	return answer.(*Response), nil
}

// CreateTopics makes logs for partitions that do not exist; what exists stays as it is, so it can be repeated.
func (o Operations) CreateTopics(ctx context.Context, r *ops.CreateTopicsRequest, opts ...Option) (*ops.CreateTopicsResponse, error) {
	return do[ops.CreateTopicsResponse](ctx, o.by, "create-topics", r, opts)
}

// CommitFile gives the batches of a new object their offsets. The same request again is answered as before, with Replayed.
func (o Operations) CommitFile(ctx context.Context, r *ops.CommitFileRequest, opts ...Option) (*ops.CommitFileResponse, error) {
	return do[ops.CommitFileResponse](ctx, o.by, "commit-file", r, opts)
}

// FindBatches says where the batches lie from given offsets on.
func (o Operations) FindBatches(ctx context.Context, r *ops.FindBatchesRequest, opts ...Option) (*ops.FindBatchesResponse, error) {
	return do[ops.FindBatchesResponse](ctx, o.by, "find-batches", r, opts)
}

// ListOffsets finds offsets by timestamp, or the special ones: latest, earliest and so on.
func (o Operations) ListOffsets(ctx context.Context, r *ops.ListOffsetsRequest, opts ...Option) (*ops.ListOffsetsResponse, error) {
	return do[ops.ListOffsetsResponse](ctx, o.by, "list-offsets", r, opts)
}

// DeleteRecords moves log starts forward.
func (o Operations) DeleteRecords(ctx context.Context, r *ops.DeleteRecordsRequest, opts ...Option) (*ops.DeleteRecordsResponse, error) {
	return do[ops.DeleteRecordsResponse](ctx, o.by, "delete-records", r, opts)
}

// DeleteTopics soft-deletes topics at a cost that does not depend on their size; PurgeDeletedLogs removes what they hold.
func (o Operations) DeleteTopics(ctx context.Context, r *ops.DeleteTopicsRequest, opts ...Option) (*ops.DeleteTopicsResponse, error) {
	return do[ops.DeleteTopicsResponse](ctx, o.by, "delete-topics", r, opts)
}

// GetLogInfo reads the offsets and sizes of logs.
func (o Operations) GetLogInfo(ctx context.Context, r *ops.GetLogInfoRequest, opts ...Option) (*ops.GetLogInfoResponse, error) {
	return do[ops.GetLogInfoResponse](ctx, o.by, "get-log-info", r, opts)
}

// GetProducerState reads what is remembered of idempotent producers.
func (o Operations) GetProducerState(ctx context.Context, r *ops.GetProducerStateRequest, opts ...Option) (*ops.GetProducerStateResponse, error) {
	return do[ops.GetProducerStateResponse](ctx, o.by, "get-producer-state", r, opts)
}

// GetCrossTierLogStart reads the lowest offsets in tiered storage.
func (o Operations) GetCrossTierLogStart(ctx context.Context, r *ops.GetCrossTierLogStartRequest, opts ...Option) (*ops.GetCrossTierLogStartResponse, error) {
	return do[ops.GetCrossTierLogStartResponse](ctx, o.by, "get-cross-tier-log-start", r, opts)
}

// PurgeDeletedLogs removes what soft-deleted logs hold, up to a cap.
func (o Operations) PurgeDeletedLogs(ctx context.Context, r *ops.PurgeDeletedLogsRequest, opts ...Option) (*ops.PurgeDeletedLogsResponse, error) {
	return do[ops.PurgeDeletedLogsResponse](ctx, o.by, "purge-deleted-logs", r, opts)
}

// PruneDisklessLogs removes batches that tiered storage holds.
func (o Operations) PruneDisklessLogs(ctx context.Context, r *ops.PruneDisklessLogsRequest, opts ...Option) (*ops.PruneDisklessLogsResponse, error) {
	return do[ops.PruneDisklessLogsResponse](ctx, o.by, "prune-diskless-logs", r, opts)
}

// EnforceRetention removes batches by size and age.
func (o Operations) EnforceRetention(ctx context.Context, r *ops.EnforceRetentionRequest, opts ...Option) (*ops.EnforceRetentionResponse, error) {
	return do[ops.EnforceRetentionResponse](ctx, o.by, "enforce-retention", r, opts)
}

// GetFilesToDelete lists files whose objects may be deleted.
func (o Operations) GetFilesToDelete(ctx context.Context, r *ops.GetFilesToDeleteRequest, opts ...Option) (*ops.GetFilesToDeleteResponse, error) {
	return do[ops.GetFilesToDeleteResponse](ctx, o.by, "get-files-to-delete", r, opts)
}

// DeleteFiles forgets files whose objects are gone.
func (o Operations) DeleteFiles(ctx context.Context, r *ops.DeleteFilesRequest, opts ...Option) (*ops.DeleteFilesResponse, error) {
	return do[ops.DeleteFilesResponse](ctx, o.by, "delete-files", r, opts)
}

// IsSafeToDeleteFile says whether an uploaded object is not committed; with Fence also that it never will be.
func (o Operations) IsSafeToDeleteFile(ctx context.Context, r *ops.IsSafeToDeleteFileRequest, opts ...Option) (*ops.IsSafeToDeleteFileResponse, error) {
	return do[ops.IsSafeToDeleteFileResponse](ctx, o.by, "is-safe-to-delete-file", r, opts)
}

// AdvanceCrossTierLogStart reports the lowest offsets in tiered storage; they only move forward.
func (o Operations) AdvanceCrossTierLogStart(ctx context.Context, r *ops.AdvanceCrossTierLogStartRequest, opts ...Option) (*ops.AdvanceCrossTierLogStartResponse, error) {
	return do[ops.AdvanceCrossTierLogStartResponse](ctx, o.by, "advance-cross-tier-log-start", r, opts)
}

// InitDisklessLog begins the diskless part of logs.
func (o Operations) InitDisklessLog(ctx context.Context, r *ops.InitDisklessLogRequest, opts ...Option) (*ops.InitDisklessLogResponse, error) {
	return do[ops.InitDisklessLogResponse](ctx, o.by, "init-diskless-log", r, opts)
}

// RepairDisklessLog sets the first diskless offset of logs.
func (o Operations) RepairDisklessLog(ctx context.Context, r *ops.RepairDisklessLogRequest, opts ...Option) (*ops.RepairDisklessLogResponse, error) {
	return do[ops.RepairDisklessLogResponse](ctx, o.by, "repair-diskless-log", r, opts)
}

// ExpireProducers forgets idle producers.
func (o Operations) ExpireProducers(ctx context.Context, r *ops.ExpireProducersRequest, opts ...Option) (*ops.ExpireProducersResponse, error) {
	return do[ops.ExpireProducersResponse](ctx, o.by, "expire-producers", r, opts)
}

// ExpireFences removes fences that no longer hold.
func (o Operations) ExpireFences(ctx context.Context, r *ops.ExpireFencesRequest, opts ...Option) (*ops.ExpireFencesResponse, error) {
	return do[ops.ExpireFencesResponse](ctx, o.by, "expire-fences", r, opts)
}

// ExpireReplays removes the kept answers of old commits.
func (o Operations) ExpireReplays(ctx context.Context, r *ops.ExpireReplaysRequest, opts ...Option) (*ops.ExpireReplaysResponse, error) {
	return do[ops.ExpireReplaysResponse](ctx, o.by, "expire-replays", r, opts)
}

// RegisterBroker registers a broker that has started, fenced; the same incarnation again gets the same epoch.
func (o Operations) RegisterBroker(ctx context.Context, r *ops.RegisterBrokerRequest, opts ...Option) (*ops.RegisterBrokerResponse, error) {
	return do[ops.RegisterBrokerResponse](ctx, o.by, "register-broker", r, opts)
}

// BrokerHeartbeat says that a broker is alive, which unfences it.
func (o Operations) BrokerHeartbeat(ctx context.Context, r *ops.BrokerHeartbeatRequest, opts ...Option) (*ops.BrokerHeartbeatResponse, error) {
	return do[ops.BrokerHeartbeatResponse](ctx, o.by, "broker-heartbeat", r, opts)
}

// FenceBroker takes a broker out of service, until its next heartbeat.
func (o Operations) FenceBroker(ctx context.Context, r *ops.FenceBrokerRequest, opts ...Option) (*ops.FenceBrokerResponse, error) {
	return do[ops.FenceBrokerResponse](ctx, o.by, "fence-broker", r, opts)
}

// UnfenceBroker puts a broker back into service.
func (o Operations) UnfenceBroker(ctx context.Context, r *ops.UnfenceBrokerRequest, opts ...Option) (*ops.UnfenceBrokerResponse, error) {
	return do[ops.UnfenceBrokerResponse](ctx, o.by, "unfence-broker", r, opts)
}

// RegisterPartitions registers partitions that brokers keep replicas of; what exists stays as it is, so it can be repeated.
func (o Operations) RegisterPartitions(ctx context.Context, r *ops.RegisterPartitionsRequest, opts ...Option) (*ops.RegisterPartitionsResponse, error) {
	return do[ops.RegisterPartitionsResponse](ctx, o.by, "register-partitions", r, opts)
}

// AlterPartition changes the ISR of a partition, as its leader.
func (o Operations) AlterPartition(ctx context.Context, r *ops.AlterPartitionRequest, opts ...Option) (*ops.AlterPartitionResponse, error) {
	return do[ops.AlterPartitionResponse](ctx, o.by, "alter-partition", r, opts)
}

// ElectLeader elects another leader of a partition.
func (o Operations) ElectLeader(ctx context.Context, r *ops.ElectLeaderRequest, opts ...Option) (*ops.ElectLeaderResponse, error) {
	return do[ops.ElectLeaderResponse](ctx, o.by, "elect-leader", r, opts)
}

// BeginSwitch begins to turn a classic topic into a diskless one; a topic in the switch stays as it is.
func (o Operations) BeginSwitch(ctx context.Context, r *ops.BeginSwitchRequest, opts ...Option) (*ops.BeginSwitchResponse, error) {
	return do[ops.BeginSwitchResponse](ctx, o.by, "begin-switch", r, opts)
}

// CommitSeal commits from where on diskless storage owns partitions; the same seal again changes nothing.
func (o Operations) CommitSeal(ctx context.Context, r *ops.CommitSealRequest, opts ...Option) (*ops.CommitSealResponse, error) {
	return do[ops.CommitSealResponse](ctx, o.by, "commit-seal", r, opts)
}

// CommitPrefixInRemoteStorage has the remote copy of classic prefixes alone be trusted, for good.
func (o Operations) CommitPrefixInRemoteStorage(ctx context.Context, r *ops.CommitPrefixInRemoteStorageRequest, opts ...Option) (*ops.CommitPrefixInRemoteStorageResponse, error) {
	return do[ops.CommitPrefixInRemoteStorageResponse](ctx, o.by, "commit-prefix-in-remote-storage", r, opts)
}

// OverrideSwitch changes where a partition stands in its switch, as an operator.
func (o Operations) OverrideSwitch(ctx context.Context, r *ops.OverrideSwitchRequest, opts ...Option) (*ops.OverrideSwitchResponse, error) {
	return do[ops.OverrideSwitchResponse](ctx, o.by, "override-switch", r, opts)
}

// DescribePartitions reads the registrations of partitions.
func (o Operations) DescribePartitions(ctx context.Context, r *ops.DescribePartitionsRequest, opts ...Option) (*ops.DescribePartitionsResponse, error) {
	return do[ops.DescribePartitionsResponse](ctx, o.by, "describe-partitions", r, opts)
}

// ListTopics lists topics by id, soft-deleted ones too until they are purged.
func (o Operations) ListTopics(ctx context.Context, r *ops.ListTopicsRequest, opts ...Option) (*ops.ListTopicsResponse, error) {
	return do[ops.ListTopicsResponse](ctx, o.by, "list-topics", r, opts)
}

// DescribeTopic reads one topic with its logs.
func (o Operations) DescribeTopic(ctx context.Context, r *ops.DescribeTopicRequest, opts ...Option) (*ops.DescribeTopicResponse, error) {
	return do[ops.DescribeTopicResponse](ctx, o.by, "describe-topic", r, opts)
}

// ListFiles lists files by id.
func (o Operations) ListFiles(ctx context.Context, r *ops.ListFilesRequest, opts ...Option) (*ops.ListFilesResponse, error) {
	return do[ops.ListFilesResponse](ctx, o.by, "list-files", r, opts)
}
