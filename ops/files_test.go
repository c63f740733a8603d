package ops_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cpnode/cpnode/ops"
)

func deleteFiles(keys, want string, entries int) step {
	return step{"delete-files", `{"object_keys": [` + keys + `]}`, `{"files": [` + want + `]}`, entries}
}

func isSafe(key string, fence bool, want string, entries int) step {
	return step{"is-safe-to-delete-file", fmt.Sprintf(`{"object_key": %q, "fence": %t}`, key, fence), `{"safe": ` + want + `}`, entries}
}

func TestDeleteFiles(t *testing.T) {
	settings := ops.DefaultSettings()
	settings.ForgottenKeyRetentionMs = 1000
	n := newNode(t, settings)
	n.play(startMs, createA, commit("live", batch(0, 1)), commit("gone", batch(5, 1)), commit("left", batch(5, 1)),
		deleteFiles(`"x"`, `{"object_key": "x", "error": "NONE"}`, 0),
		deleteFiles(`"live", "x"`, `{"object_key": "live", "error": "FILE_IN_USE"}, {"object_key": "x", "error": "NONE"}`, 0),
		deleteFiles(`"gone", "live", "gone"`, `{"object_key": "gone", "error": "NONE"}, {"object_key": "live", "error": "FILE_IN_USE"}, {"object_key": "gone", "error": "NONE"}`, 1), // 1060
		deleteFiles(`"gone"`, `{"object_key": "gone", "error": "NONE"}`, 0),
		step{"get-files-to-delete", `{"marked_before": 1031, "limit": 2147483647}`, `{"files": [{"object_key": "left", "marked_for_deletion_at": 1030, "size": 5000}]}`, 0},
		step{"get-files-to-delete", `{"marked_before": 1030}`, `{"files": []}`, 0},
		commit("gone", batch(0, 1)).wants("OBJECT_KEY_FENCED").logs(0))
	n.play(2059, commit("gone", batch(0, 1)).wants("OBJECT_KEY_FENCED").logs(0))
	n.play(2060, commit("gone", batch(0, 1)).wants(committed(accepted(10, 2060, 0))))
}

func TestDeleteFilesInParts(t *testing.T) {
	play(t, rows(1), commit("a", batch(0, 1)), commit("b", batch(0, 1)),
		deleteFiles(`"a", "x", "b"`, `{"object_key": "a", "error": "NONE"}, {"object_key": "x", "error": "NONE"}, {"object_key": "b", "error": "NONE"}`, 2))
}

// A broker asks whether it may delete an object while its commit may still come.
func TestIsSafeToDeleteFile(t *testing.T) {
	settings := ops.DefaultSettings()
	settings.ObjectFenceRetentionMs = 1000
	n := newNode(t, settings)
	n.play(startMs, createA,
		isSafe("k", false, "true", 0),
		isSafe("k", true, "true", 1), // 1020
		isSafe("k", false, "true", 0),
		commit("k", batch(0, 1)).wants("OBJECT_KEY_FENCED").logs(0),
		isSafe("k", true, "true", 1), // renewed at 1050
		commit("other", batch(0, 1)),
		isSafe("other", true, "false", 0))
	n.play(2049, commit("k", batch(0, 1)).wants("OBJECT_KEY_FENCED").logs(0))
	n.play(2050, commit("k", batch(0, 1)))
}

// A fence is never shortened, neither by a shorter retention nor by delete-files.
func TestFencesAreNotShortened(t *testing.T) {
	settings := ops.DefaultSettings()
	settings.ObjectFenceRetentionMs, settings.ForgottenKeyRetentionMs = 1000, 10
	n := newNode(t, settings)
	n.play(startMs, isSafe("k", true, "true", 1))
	n.settings.ObjectFenceRetentionMs = 500
	n.play(startMs, isSafe("k", true, "true", 0))
}

// A fence near the end of time lasts until then; its end once lay in the past.
func TestFenceAtTheEndOfTime(t *testing.T) {
	n := newNode(t, ops.DefaultSettings())
	n.play(math.MaxInt64-2, createA, isSafe("k", true, "true", 1), commit("k", batch(0, 1)).wants("OBJECT_KEY_FENCED").logs(0))
}

func TestListFiles(t *testing.T) {
	row := func(id int, key, state string, at, marked, batches int) string {
		return fmt.Sprintf(`{"file_id": %d, "object_key": %q, "format": 1, "reason": "produce", "state": %q, "uploader_broker_id": 1, "committed_at": %d, "marked_for_deletion_at": %d, "size": 5000, "batch_count": %d}`,
			id, key, state, at, marked, batches)
	}
	list := func(request, next string, files ...string) step {
		return step{"list-files", request, fmt.Sprintf(`{"files": [%s], "next": %q}`, strings.Join(files, ","), next), 0}
	}
	one, two, three := row(1, "a", "uploaded", 1010, -1, 2), row(2, "b", "deleting", 1020, 1020, 0), row(3, "c", "uploaded", 1030, -1, 1)
	n := play(t, ops.DefaultSettings(), createA, commit("a", batch(0, 1), batch(1, 1)), commit("b", batch(9, 1)), commit("c", batch(0, 2)),
		list(`{}`, "", one, two, three),
		list(`{"limit": 0, "after": ""}`, "", one, two, three),
		list(`{"limit": 2}`, "2", one, two),
		list(`{"limit": 2, "after": "2"}`, "", three),
		list(`{"state": "uploaded", "limit": 1}`, "1", one),
		list(`{"state": "uploaded", "limit": 1, "after": "1"}`, "", three),
		list(`{"state": "deleting"}`, "", two),
		list(`{"after": "3"}`, ""),
	)
	n.settings.Limits.ListedMaximum = 1
	n.play(startMs, list(`{}`, "1", one), list(`{"limit": 1000, "after": "1"}`, "2", two))
	n.settings.Limits.ListedMaximum = 10
	n.settings.Limits.AnswerRows = 2 // a filter looks at no more
	n.play(startMs, list(`{"state": "deleting"}`, "2", two), list(`{"state": "deleting", "after": "2"}`, ""))
}
