package main

import (
	"fmt"
	"strconv"

	"github.com/cpnode/cpnode/jepsen/report"
)

// storyRows are enough to see how it went.
const storyRows = 24

// story is what the metrics of the leader of the moment said over time, beside what was
// there. Counters begin again with each leader.
func story(r *report.Report, samples []sample) {
	r.Title("What /metrics of the leader said, beside what was there")
	r.Row("AFTER", "LEADER", "PURGED", "MARKED", "PURGE WAITS", "DELETED", "FORGOTTEN", "CLEAN WAITS", "FILES MARKED", "OBJECTS", "STATE")
	step := max(1, (len(samples)+storyRows-1)/storyRows)
	for i, s := range samples {
		if i%step == 0 || i == len(samples)-1 {
			r.Row(s.cells()...)
		}
	}
}

// cells are what story says of a moment.
func (s sample) cells() []string {
	value := func(name string) string {
		if s.leader == "" {
			return "-"
		}
		return fmt.Sprintf("%.0f", s.metrics["cpnode_"+name])
	}
	return []string{
		report.Short(s.at), orDash(s.leader),
		value("topic_purger_batches_total"), value("topic_purger_files_marked_total"), value("topic_purger_oldest_waiting_age_seconds") + " s",
		value("file_cleaner_objects_deleted_total"), value("file_cleaner_files_total"), value("file_cleaner_oldest_waiting_age_seconds") + " s",
		strconv.Itoa(s.marked), strconv.Itoa(s.objects), megabytes(s.stateBytes),
	}
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func megabytes(bytes int64) string { return fmt.Sprintf("%.2f MB", float64(bytes)/1e6) }
