package ops

import (
	"strconv"

	"github.com/cpnode/cpnode/store"
)

// ListFilesRequest lists files by id.
type ListFilesRequest struct {
	After string `json:"after" default:"" doc:"The last answer's next; empty = from the start."`
	Limit int64  `json:"limit" default:"1000" min:"0" doc:"At most 10,000; 0 = no limit but that of an answer."`
	State string `json:"state" default:"" oneof:",uploaded,deleting" doc:"Only files in this state; empty = both."`
}

// ListFilesResponse is one page; Next is empty on the last one. A page may hold
// fewer files than asked, or none, and still have a Next: a filter looks at a
// bounded number of files.
type ListFilesResponse struct {
	Files []FileInfo `json:"files"`
	Next  string     `json:"next"`
}

// FileInfo is one file.
type FileInfo struct {
	FileID              int64  `json:"file_id"`
	ObjectKey           string `json:"object_key"`
	Format              int64  `json:"format"`
	Reason              string `json:"reason" doc:"What made the file: produce."`
	State               string `json:"state" doc:"uploaded or deleting."`
	UploaderBrokerID    int32  `json:"uploader_broker_id"`
	CommittedAt         int64  `json:"committed_at"`
	MarkedForDeletionAt int64  `json:"marked_for_deletion_at" doc:"-1 while batches refer to the file."`
	Size                int64  `json:"size"`
	BatchCount          int64  `json:"batch_count"`
}

// Validate bounds the page and reads the position.
func (r *ListFilesRequest) Validate(lim Limits) error {
	if _, err := r.after(); err != nil {
		return err
	}
	return checkListLimit(r.Limit, lim)
}

func (r *ListFilesRequest) after() (uint64, error) {
	if r.After == "" {
		return 0, nil
	}
	id, err := strconv.ParseUint(r.After, 10, 63)
	if err != nil {
		return 0, invalid("after", "is not a position that an answer gave")
	}
	return id, nil
}

// Query is one forward scan, of lim.AnswerRows files at most.
func (r *ListFilesRequest) Query(tx *store.ReadTx, lim Limits) (any, error) {
	after, err := r.after()
	if err != nil {
		return nil, err
	}
	answer, rows, looked := &ListFilesResponse{Files: []FileInfo{}}, listRows(r.Limit, lim), 0
	last := after
	err = tx.Files(after, func(f *store.File) bool {
		wanted := r.State == "" || r.State == f.State.String()
		switch {
		case wanted && len(answer.Files) == rows:
			answer.Next = strconv.FormatInt(answer.Files[rows-1].FileID, 10)
			return false
		case looked == lim.AnswerRows:
			answer.Next = strconv.FormatUint(last, 10)
			return false
		}
		looked++
		last = f.ID
		if wanted {
			answer.Files = append(answer.Files, fileInfo(f))
		}
		return true
	})
	return answer, err
}

func fileInfo(f *store.File) FileInfo {
	info := FileInfo{
		FileID: int64(f.ID), ObjectKey: f.ObjectKey, Format: f.Format, Reason: f.Reason.String(), State: f.State.String(),
		UploaderBrokerID: f.UploaderBrokerID, CommittedAt: f.CommittedAt, MarkedForDeletionAt: -1, Size: f.Size, BatchCount: f.BatchCount,
	}
	if f.State == store.FileDeleting {
		info.MarkedForDeletionAt = f.MarkedForDeletionAt
	}
	return info
}
