package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

var update = flag.Bool("update", false, "write docs/metrics.md")

const referenceFile = "../../docs/metrics.md"

const referenceHead = `# Metrics

Every node serves its metrics for Prometheus under ` + "`/metrics`" + `; a program that embeds a node passes a registerer and gets the same.
This page is written by ` + "`make docs`" + ` from what three running nodes export. Names end in their unit: ` + "`_seconds`, `_bytes`" + `, or ` + "`_total`" + ` for
counters, which begin at 0 with the process. The number of series depends on the operations, the members and the kinds of files, never on topics,
partitions or clients. Beside these there are those of the Go runtime (` + "`go_`) and of the process (`process_`" + `).

Workers run on the leader, and their counters are on every node: put the nodes together with ` + "`sum`" + ` for counters and ` + "`max`" + ` for gauges.
Alert rules and a dashboard on these metrics are in [deploy](../deploy/README.md).

"In Inkless" is the metric that says the same there, in its MBean of that type; ages and times are in milliseconds there, and rates are meters.
A metric ` + "`..._last_success_timestamp_seconds`" + ` takes the place of an age: ` + "`time() - x`" + `.
`

// section is a part of the page: the metrics whose names begin with one of prefixes.
type section struct {
	title, text string
	prefixes    []string
}

var sections = []section{
	{"Requests", "Counted where they come in, over HTTP or in process; what a node answers for another is counted by the other one.", []string{"request"}},
	{"Entries and reads", "", []string{"proposals", "entry", "apply", "applied", "reads", "leader_confirmation"}},
	{"Raft and members", "", []string{"raft", "members", "failures", "peer", "leader_yields", "staleness", "clock"}},
	{"Files and snapshots", "", []string{"store", "disk", "storage", "state", "snapshot", "restore", "node"}},
	{"What the state holds", "From totals in the state, which cost one row to read.", []string{"topics", "logs", "batches", "files", "commit_replays", "producer_states", "object_fences", "brokers"}},
	{"Watches and sessions", "See [watch.md](watch.md).", []string{"watch", "broker"}},
	{"Topic purger", "", []string{"topic_purger"}},
	{"File cleaner", "Only with an object store (`object.store.type`).", []string{"file_cleaner"}},
	{"Retention enforcer", "", []string{"retention_enforcer"}},
	{"Consolidation pruner", "", []string{"consolidation_pruner"}},
	{"Expirers", "Kinds: producers, fences and replays.", []string{"expirer"}},
	{"Cross-tier reporter", "On the leader, fed by `report-remote-offsets`; a broker may run one of its own.", []string{"cross_tier_reporter"}},
	{"Switch", "Those of partitions and deletions on a broker come from the gate that it embeds, not from `cpnode serve`.", []string{"switch"}},
	{"hashicorp/raft", "What the raft library measures of itself, of the whole process (package `raftnode/raftmetrics`). For finding causes; there is no promise that these stay.", []string{"hashicorp_raft"}},
	{"Others", "", []string{""}},
}

// testReference holds docs/metrics.md against what is exported, or writes it.
func testReference(t *testing.T, exported families) {
	page := referencePage(exported)
	if *update {
		require.NoError(t, os.WriteFile(referenceFile, []byte(page), 0o600))
	}
	written, err := os.ReadFile(referenceFile)
	require.NoError(t, err)
	require.Equal(t, string(written), page, "run make docs")
	for name := range inklessNames {
		require.Contains(t, exported, name, "in the table of Inkless's names")
	}
	for name := range inklessQueries {
		require.True(t, slices.ContainsFunc(ops.All(), func(o *ops.Operation) bool { return o.Name == name }), "%s in the table of Inkless's queries", name)
	}
}

func referencePage(exported families) string {
	var page strings.Builder
	page.WriteString(referenceHead)
	left := slices.Sorted(maps.Keys(exported))
	for _, s := range sections {
		mine := slices.Clone(left)
		mine = slices.DeleteFunc(mine, func(name string) bool { return !s.holds(name) })
		left = slices.DeleteFunc(left, s.holds)
		if len(mine) == 0 {
			continue
		}
		fmt.Fprintf(&page, "\n## %s\n", s.title)
		if s.text != "" {
			fmt.Fprintf(&page, "%s\n", s.text)
		}
		page.WriteString("\n| metric | type | labels | meaning | in Inkless |\n| --- | --- | --- | --- | --- |\n")
		for _, name := range mine {
			f := exported[name]
			fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s |\n", name, strings.ToLower(f.GetType().String()), labelsOf(f), f.GetHelp(), inklessNames[name])
		}
	}
	page.WriteString("\n## Operations in Inkless\n`<Query>` above, by operation; others have none.\n\n| operation | `<Query>` |\n| --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(inklessQueries)) {
		fmt.Fprintf(&page, "| `%s` | `%s` |\n", name, inklessQueries[name])
	}
	return page.String()
}

// holds says whether the words of a name begin with those of a prefix.
func (s *section) holds(name string) bool {
	words := strings.TrimPrefix(name, "cpnode_") + "_"
	return slices.ContainsFunc(s.prefixes, func(prefix string) bool {
		return prefix == "" || strings.HasPrefix(words, prefix+"_") || strings.HasPrefix(words, prefix+"s_")
	})
}

func labelsOf(f *dto.MetricFamily) string {
	names := map[string]bool{}
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			names["`"+l.GetName()+"`"] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}

// inklessNames are the names of Inkless's metrics, facts of its sources.
var inklessNames = map[string]string{
	"cpnode_requests_total":                         "`PostgresControlPlane` `<Query>QueryRate`",
	"cpnode_request_duration_seconds":               "`<Query>QueryTime`",
	"cpnode_request_last_success_timestamp_seconds": "`<Query>LastSuccessfulQueryAgeMs`",

	"cpnode_topic_purger_cycles_total":                   "`TopicPurger` `TopicPurgerRate`",
	"cpnode_topic_purger_cycle_duration_seconds":         "`TopicPurgerTotalTime`",
	"cpnode_topic_purger_batches_total":                  "`TopicPurgerBatchesRate`",
	"cpnode_topic_purger_logs_total":                     "`TopicPurgerLogsRate`",
	"cpnode_topic_purger_files_marked_total":             "`TopicPurgerFilesMarkedRate`",
	"cpnode_topic_purger_errors_total":                   "`TopicPurgerErrorRate`",
	"cpnode_topic_purger_saturated_cycles_total":         "`TopicPurgerCycleSaturatedRate`",
	"cpnode_topic_purger_work_remains":                   "`TopicPurgerWorkRemain`",
	"cpnode_topic_purger_last_success_timestamp_seconds": "`LastSuccessfulTopicPurgeAgeMs`",

	"cpnode_file_cleaner_cycles_total":                   "`FileCleaner` `FileCleanerRate`",
	"cpnode_file_cleaner_cycle_duration_seconds":         "`FileCleanerTotalTime`",
	"cpnode_file_cleaner_files_total":                    "`FileCleanerFilesRate`",
	"cpnode_file_cleaner_objects_failed_total":           "`FileCleanerFilesFailedRate`",
	"cpnode_file_cleaner_errors_total":                   "`FileCleanerErrorRate`",
	"cpnode_file_cleaner_saturated_cycles_total":         "`FileCleanerCycleSaturatedRate`",
	"cpnode_file_cleaner_last_success_timestamp_seconds": "`LastSuccessfulFileCleanupAgeMs`",

	"cpnode_retention_enforcer_cycles_total":           "`RetentionEnforcer` `RetentionEnforcementRate`",
	"cpnode_retention_enforcer_cycle_duration_seconds": "`RetentionEnforcementTotalTime`",
	"cpnode_retention_enforcer_errors_total":           "`RetentionEnforcementErrorRate`",
	"cpnode_retention_enforcer_deleted_batches_total":  "`RetentionEnforcementTotalBatchesDeleted`",
	"cpnode_retention_enforcer_deleted_bytes_total":    "`RetentionEnforcementTotalBytesDeleted`",
	"cpnode_retention_enforcer_schedule_lag_seconds":   "`RetentionEnforcementScheduleLagMs`",

	"cpnode_cross_tier_reporter_reported_partitions_total": "`CrossTierLogStartReporter` `PartitionsReported`",
	"cpnode_cross_tier_reporter_errors_total":              "`ReportErrors`",
	"cpnode_cross_tier_reporter_pending_partitions":        "`PendingPartitions`",
}

// inklessQueries are what Inkless calls the operations in the names above.
var inklessQueries = map[string]string{
	"advance-cross-tier-log-start": "AdvanceCrossTierLogStart", "commit-file": "CommitFile", "create-topics": "TopicCreate",
	"delete-files": "FilesDelete", "delete-records": "DeleteRecords", "delete-topics": "TopicDelete", "enforce-retention": "EnforceRetention",
	"find-batches": "FindBatches", "get-cross-tier-log-start": "GetCrossTierLogStart", "get-files-to-delete": "GetFilesToDelete",
	"get-log-info": "GetLogInfo", "get-producer-state": "GetProducerState", "init-diskless-log": "InitDisklessLog",
	"is-safe-to-delete-file": "SafeDeleteFileCheck", "list-offsets": "ListOffsets", "prune-diskless-logs": "PruneDisklessLogs",
	"repair-diskless-log": "RepairDisklessLog",
}
