package ops

// The registration table: one line an operation.
func init() {
	// Data path.
	write[CreateTopicsRequest, CreateTopicsResponse, createTopic]("create-topics", "Create topics, or add partitions to them.")
	write[CommitFileRequest, CommitFileResponse, commitFile]("commit-file", "Give the batches of a new object their offsets.")
	read[FindBatchesRequest, FindBatchesResponse]("find-batches", "Find the batches to fetch from given offsets on.")
	read[ListOffsetsRequest, ListOffsetsResponse]("list-offsets", "Find offsets by timestamp.")
	write[DeleteRecordsRequest, DeleteRecordsResponse, deleteRecords]("delete-records", "Move log starts forward.")
	write[DeleteTopicsRequest, DeleteTopicsResponse, deleteTopic]("delete-topics", "Soft-delete topics; what they hold is purged later.")
	read[GetLogInfoRequest, GetLogInfoResponse]("get-log-info", "Read the offsets and sizes of logs.")
	read[GetProducerStateRequest, GetProducerStateResponse]("get-producer-state", "Read what is remembered of idempotent producers.")
	read[GetCrossTierLogStartRequest, GetCrossTierLogStartResponse]("get-cross-tier-log-start", "Read the lowest offsets in tiered storage.")

	// Maintenance.
	write[PurgeDeletedLogsRequest, PurgeDeletedLogsResponse, purgeLogs]("purge-deleted-logs", "Remove what soft-deleted logs hold.")
	write[PruneDisklessLogsRequest, PruneDisklessLogsResponse, pruneLog]("prune-diskless-logs", "Remove batches that tiered storage holds.")
	write[EnforceRetentionRequest, EnforceRetentionResponse, retainLog]("enforce-retention", "Remove batches by size and age.")
	read[GetFilesToDeleteRequest, GetFilesToDeleteResponse]("get-files-to-delete", "List files whose objects may be deleted.")
	write[DeleteFilesRequest, DeleteFilesResponse, deleteFiles]("delete-files", "Forget files whose objects are gone.")
	write[IsSafeToDeleteFileRequest, IsSafeToDeleteFileResponse, fenceFile]("is-safe-to-delete-file", "Ask whether an uploaded object is not committed.")
	write[AdvanceCrossTierLogStartRequest, AdvanceCrossTierLogStartResponse, advanceLogStarts]("advance-cross-tier-log-start", "Report the lowest offsets in tiered storage.")
	write[InitDisklessLogRequest, InitDisklessLogResponse, initLogs]("init-diskless-log", "Begin the diskless part of logs.")
	write[RepairDisklessLogRequest, RepairDisklessLogResponse, repairLogs]("repair-diskless-log", "Set the first diskless offset of logs.")
	write[ExpireProducersRequest, ExpireProducersResponse, dropIdleProducers]("expire-producers", "Forget idle producers.")
	write[ExpireFencesRequest, ExpireFencesResponse, dropFences]("expire-fences", "Remove fences that no longer hold.")
	write[ExpireReplaysRequest, ExpireReplaysResponse, dropReplays]("expire-replays", "Remove the kept answers of old commits.")

	// Lists.
	read[ListTopicsRequest, ListTopicsResponse]("list-topics", "List topics.")
	read[DescribeTopicRequest, DescribeTopicResponse]("describe-topic", "Read one topic with its logs.")
	read[ListFilesRequest, ListFilesResponse]("list-files", "List files.")

	// Proposed by nodes alone.
	internal[checkpointDigest]("checkpoint-digest", "Note the digest of the state at one entry.")
	internal[raiseFeatureLevel]("raise-feature-level", "Raise the level of what may be logged.")
}

// read registers a query by the types of its request and answer.
func read[Req, Resp any, R interface {
	*Req
	Query
}](name, summary string) {
	register(Operation{Name: name, Summary: summary,
		NewRequest: func() Request { return R(new(Req)) }, NewResponse: func() any { return new(Resp) }})
}

// write registers a write by the types of its request, answer and command.
func write[Req, Resp, Cmd any, R interface {
	*Req
	Write
}, C interface {
	*Cmd
	Command
}](name, summary string) {
	register(Operation{Name: name, Summary: summary,
		NewRequest: func() Request { return R(new(Req)) }, NewResponse: func() any { return new(Resp) },
		NewCommand: func() Command { return C(new(Cmd)) }})
}

// internal registers a command that no client asks for.
func internal[Cmd any, C interface {
	*Cmd
	Command
}](name, summary string) {
	register(Operation{Name: name, Summary: summary, NewCommand: func() Command { return C(new(Cmd)) }})
}
