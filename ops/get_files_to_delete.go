package ops

import "github.com/cpnode/cpnode/store"

// GetFilesToDeleteRequest asks for files that no batch refers to any more.
type GetFilesToDeleteRequest struct {
	MarkedBefore int64 `json:"marked_before" doc:"Unix ms; only files marked strictly before it."`
	Limit        int64 `json:"limit" default:"0" min:"0" doc:"0 = no limit but that of an answer."`
}

// GetFilesToDeleteResponse is oldest mark first, then by file id.
type GetFilesToDeleteResponse struct {
	Files []FileToDelete `json:"files"`
}

// FileToDelete is one file whose object may go.
type FileToDelete struct {
	ObjectKey           string `json:"object_key"`
	MarkedForDeletionAt int64  `json:"marked_for_deletion_at"`
	Size                int64  `json:"size"`
}

// Validate has nothing to add to the tags: the limit is cut to what an answer holds.
func (*GetFilesToDeleteRequest) Validate(Limits) error { return nil }

// Query is one forward scan of what it returns.
func (r *GetFilesToDeleteRequest) Query(tx *store.ReadTx, lim Limits) (any, error) {
	answer, rows := &GetFilesToDeleteResponse{Files: []FileToDelete{}}, pageRows(r.Limit, lim)
	err := tx.DeletingFiles(r.MarkedBefore, func(f *store.File) bool {
		if len(answer.Files) == rows {
			return false
		}
		answer.Files = append(answer.Files, FileToDelete{f.ObjectKey, f.MarkedForDeletionAt, f.Size})
		return true
	})
	return answer, err
}
