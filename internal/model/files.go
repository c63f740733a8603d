package model

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
)

type filesToDeleteRequest struct {
	MarkedBefore int64   `json:"marked_before"`
	Limit        natural `json:"limit"`
}

type filesToDeleteAnswer struct {
	Files []markedFile `json:"files"`
}

type markedFile struct {
	ObjectKey string `json:"object_key"`
	MarkedAt  int64  `json:"marked_for_deletion_at"`
	Size      int64  `json:"size"`
}

func (m *Model) getFilesToDelete(r filesToDeleteRequest) (any, string) {
	answer := filesToDeleteAnswer{[]markedFile{}}
	for _, f := range m.files {
		if f.markedAt != live && f.markedAt < r.MarkedBefore {
			answer.Files = append(answer.Files, markedFile{f.key, f.markedAt, f.size})
		}
	}
	slices.SortStableFunc(answer.Files, func(a, b markedFile) int { return cmp.Compare(a.MarkedAt, b.MarkedAt) })
	n := min(withinCap(len(answer.Files), r.Limit), m.cfg.MaxAnswerRows)
	answer.Files = answer.Files[:n]
	return answer, ""
}

type deleteFilesRequest struct {
	ObjectKeys []string `json:"object_keys"`
}

type deleteFilesAnswer struct {
	Files []deletedFile `json:"files"`
}

type deletedFile struct {
	ObjectKey string `json:"object_key"`
	Error     string `json:"error"`
}

func (m *Model) deleteFiles(r deleteFilesRequest) (any, string) {
	if slices.ContainsFunc(r.ObjectKeys, func(key string) bool { return !m.legalKey(key) }) {
		return nil, invalidRequest
	}
	answer := deleteFilesAnswer{[]deletedFile{}}
	for _, key := range r.ObjectKeys {
		answer.Files = append(answer.Files, deletedFile{key, m.deleteFile(key)})
	}
	return answer, ""
}

func (m *Model) deleteFile(key string) string {
	f := m.file(key)
	if f == nil {
		return noError
	}
	if f.markedAt == live {
		return fileInUse
	}
	m.files = slices.DeleteFunc(m.files, func(other *file) bool { return other == f })
	m.fence(key, m.cfg.ForgottenKeyRetentionMs)
	m.changed = true
	return noError
}

// fence refuses commits of a key from now on, never for less long than an earlier fence does.
func (m *Model) fence(key string, retentionMs int64) {
	until := m.now + retentionMs
	if old, ok := m.fences[key]; !ok || old < until {
		m.fences[key] = until
		m.changed = true
	}
}

func (m *Model) fenced(key string) bool {
	until, ok := m.fences[key]
	return ok && m.now < until
}

type safeRequest struct {
	ObjectKey string `json:"object_key"`
	Fence     bool   `json:"fence"`
}

type safeAnswer struct {
	Safe bool `json:"safe"`
}

func (m *Model) isSafeToDeleteFile(r safeRequest) (any, string) {
	if !m.legalKey(r.ObjectKey) {
		return nil, invalidRequest
	}
	safe := m.file(r.ObjectKey) == nil
	if safe && r.Fence {
		m.fence(r.ObjectKey, m.cfg.ObjectFenceRetentionMs)
	}
	return safeAnswer{safe}, ""
}

type fileRow struct {
	FileID      int64  `json:"file_id"`
	ObjectKey   string `json:"object_key"`
	Format      int64  `json:"format"`
	Reason      string `json:"reason"`
	State       string `json:"state"`
	Uploader    int32  `json:"uploader_broker_id"`
	CommittedAt int64  `json:"committed_at"`
	MarkedAt    int64  `json:"marked_for_deletion_at"`
	Size        int64  `json:"size"`
	BatchCount  int64  `json:"batch_count"`
}

type listFilesAnswer struct {
	Files []fileRow `json:"files"`
	Next  string    `json:"next"`
}

func (f *file) state() string {
	if f.markedAt == live {
		return "uploaded"
	}
	return "deleting"
}

func (m *Model) listFiles(r listRequest) (any, string) {
	var after int64
	if r.After != "" {
		var err error
		if after, err = strconv.ParseInt(r.After, 10, 64); err != nil {
			return nil, invalidRequest
		}
	}
	answer := listFilesAnswer{Files: []fileRow{}}
	count := m.references()
	var last int64
	for _, f := range m.files {
		if f.id <= after || r.State != "" && r.State != f.state() {
			continue
		}
		if capped(len(answer.Files), r.Limit) {
			answer.Next = strconv.FormatInt(last, 10)
			break
		}
		last = f.id
		answer.Files = append(answer.Files, fileRow{
			f.id, f.key, f.format, "produce", f.state(), f.uploader, f.committedAt, f.markedAt, f.size, count[f.id],
		})
	}
	return answer, ""
}

type expireRequest struct {
	MaxRows natural `json:"max_rows"`
}

func (m *Model) expireFences(r expireRequest) (any, string) {
	var expired []string
	for _, key := range slices.Sorted(maps.Keys(m.fences)) {
		if !m.fenced(key) {
			expired = append(expired, key)
		}
	}
	slices.SortStableFunc(expired, func(a, b string) int { return cmp.Compare(m.fences[a], m.fences[b]) })
	expired = expired[:withinCap(len(expired), r.MaxRows)]
	for _, key := range expired {
		delete(m.fences, key)
	}
	m.changed = len(expired) > 0
	return expireAnswer{Removed: len(expired)}, ""
}

func (m *Model) expireReplays(r expireRequest) (any, string) {
	var answer expireAnswer
	for _, f := range m.files { // commits carry a clock that never goes back: the oldest come first
		expired := f.replay != nil && m.now-f.committedAt > m.cfg.ReplayRetentionMs
		if expired && !capped(answer.Removed, r.MaxRows) {
			f.replay = nil
			answer.Removed++
		}
	}
	m.changed = answer.Removed > 0
	return answer, ""
}
