package ops

// The registration table: one line an operation.
func init() {
	// Data path.
	write[CreateTopicsRequest, CreateTopicsResponse, createTopic]("create-topics", "Create topics, or add partitions to them.")
	write[CommitFileRequest, CommitFileResponse, commitFile]("commit-file", "Give the batches of a new object their offsets.")
	read[FindBatchesRequest, FindBatchesResponse]("find-batches", "Find the batches to fetch from given offsets on.")
	read[ListOffsetsRequest, ListOffsetsResponse]("list-offsets", "Find offsets by timestamp.")
	frees[DeleteRecordsRequest, DeleteRecordsResponse, deleteRecords]("delete-records", "Move log starts forward.")
	frees[DeleteTopicsRequest, DeleteTopicsResponse, deleteTopic]("delete-topics", "Soft-delete topics; what they hold is purged later.")
	read[GetLogInfoRequest, GetLogInfoResponse]("get-log-info", "Read the offsets and sizes of logs.")
	read[GetProducerStateRequest, GetProducerStateResponse]("get-producer-state", "Read what is remembered of idempotent producers.")
	read[GetCrossTierLogStartRequest, GetCrossTierLogStartResponse]("get-cross-tier-log-start", "Read the lowest offsets in tiered storage.")

	// Maintenance.
	frees[PurgeDeletedLogsRequest, PurgeDeletedLogsResponse, purgeLogs]("purge-deleted-logs", "Remove what soft-deleted logs hold.").Background = true
	frees[PruneDisklessLogsRequest, PruneDisklessLogsResponse, pruneLog]("prune-diskless-logs", "Remove batches that tiered storage holds.").Background = true
	frees[EnforceRetentionRequest, EnforceRetentionResponse, retainLog]("enforce-retention", "Remove batches by size and age.").Background = true
	read[GetFilesToDeleteRequest, GetFilesToDeleteResponse]("get-files-to-delete", "List files whose objects may be deleted.")
	frees[DeleteFilesRequest, DeleteFilesResponse, deleteFiles]("delete-files", "Forget files whose objects are gone.")
	write[IsSafeToDeleteFileRequest, IsSafeToDeleteFileResponse, fenceFile]("is-safe-to-delete-file", "Ask whether an uploaded object is not committed.")
	write[AdvanceCrossTierLogStartRequest, AdvanceCrossTierLogStartResponse, advanceLogStarts]("advance-cross-tier-log-start", "Report the lowest offsets in tiered storage.")
	write[InitDisklessLogRequest, InitDisklessLogResponse, initLogs]("init-diskless-log", "Begin the diskless part of logs.")
	write[RepairDisklessLogRequest, RepairDisklessLogResponse, repairLogs]("repair-diskless-log", "Set the first diskless offset of logs.")
	frees[ExpireProducersRequest, ExpireProducersResponse, dropIdleProducers]("expire-producers", "Forget idle producers.").Background = true
	frees[ExpireFencesRequest, ExpireFencesResponse, dropFences]("expire-fences", "Remove fences that no longer hold.").Background = true
	frees[ExpireReplaysRequest, ExpireReplaysResponse, dropReplays]("expire-replays", "Remove the kept answers of old commits.").Background = true

	// Brokers, their partitions, and the switch.
	write[RegisterBrokerRequest, RegisterBrokerResponse, registerBroker]("register-broker", "Register a broker that has started.").since(2)
	write[BrokerHeartbeatRequest, BrokerHeartbeatResponse, heartbeat]("broker-heartbeat", "Say that a broker is alive.").since(2).whenFull()
	write[FenceBrokerRequest, FenceBrokerResponse, fenceBroker]("fence-broker", "Take a broker out of service.").since(2).whenFull()
	write[UnfenceBrokerRequest, UnfenceBrokerResponse, unfenceBroker]("unfence-broker", "Put a broker back into service.").since(2).whenFull()
	write[RegisterPartitionsRequest, RegisterPartitionsResponse, registerPartitions]("register-partitions", "Register partitions that brokers keep replicas of.").since(2)
	write[AlterPartitionRequest, AlterPartitionResponse, alterPartition]("alter-partition", "Change the ISR of a partition, as its leader.").since(2).whenFull()
	write[ElectLeaderRequest, ElectLeaderResponse, electLeader]("elect-leader", "Elect another leader of a partition.").since(2).whenFull()
	write[BeginSwitchRequest, BeginSwitchResponse, beginSwitch]("begin-switch", "Begin to turn a classic topic into a diskless one.").since(2)
	write[CommitSealRequest, CommitSealResponse, commitSeals]("commit-seal", "Commit from where on diskless storage owns partitions.").since(2).SealsLogs = true
	write[CommitPrefixInRemoteStorageRequest, CommitPrefixInRemoteStorageResponse, commitPrefixes]("commit-prefix-in-remote-storage", "Trust the remote copy of classic prefixes alone.").since(2)
	write[OverrideSwitchRequest, OverrideSwitchResponse, overrideSwitch]("override-switch", "Change where a partition stands in its switch, as an operator.").since(2)
	read[DescribePartitionsRequest, DescribePartitionsResponse]("describe-partitions", "Read the registrations of partitions.").since(2)

	// Lists.
	read[ListTopicsRequest, ListTopicsResponse]("list-topics", "List topics.")
	read[DescribeTopicRequest, DescribeTopicResponse]("describe-topic", "Read one topic with its logs.")
	read[ListFilesRequest, ListFilesResponse]("list-files", "List files.")

	// Proposed by nodes alone.
	internal[checkpointDigest]("checkpoint-digest", "Note the digest of the state at one entry.")
	internal[raiseFeatureLevel]("raise-feature-level", "Raise the level of what may be logged.")
	internal[setEventHistory]("set-event-history", "Set how many changes are kept for watchers.").since(EventsFeatureLevel)
	internal[advanceBroker]("advance-broker", "Go on with a change that goes over the partitions of a broker.").since(2)
}

// read registers a query by the types of its request and answer.
func read[Req, Resp any, R interface {
	*Req
	Query
}](name, summary string) *Operation {
	return register(Operation{Name: name, Summary: summary,
		NewRequest: func() Request { return R(new(Req)) }, NewResponse: func() any { return new(Resp) }})
}

// write registers a write by the types of its request, answer and command.
func write[Req, Resp, Cmd any, R interface {
	*Req
	Write
}, C interface {
	*Cmd
	Command
}](name, summary string) *Operation {
	return register(Operation{Name: name, Summary: summary,
		NewRequest: func() Request { return R(new(Req)) }, NewResponse: func() any { return new(Resp) },
		NewCommand: func() Command { return C(new(Cmd)) }})
}

// frees registers a write that takes less space than it frees.
func frees[Req, Resp, Cmd any, R interface {
	*Req
	Write
}, C interface {
	*Cmd
	Command
}](name, summary string) *Operation {
	return write[Req, Resp, Cmd, R, C](name, summary).whenFull()
}

// internal registers a command that no client asks for.
func internal[Cmd any, C interface {
	*Cmd
	Command
}](name, summary string) *Operation {
	return register(Operation{Name: name, Summary: summary, RunsWhenFull: true, NewCommand: func() Command { return C(new(Cmd)) }})
}

// since sets the feature level at which the operation may be logged.
func (o *Operation) since(level uint64) *Operation {
	o.FeatureLevel = level
	return o
}

// whenFull has a node short of space go on with the operation.
func (o *Operation) whenFull() *Operation {
	o.RunsWhenFull = true
	return o
}
