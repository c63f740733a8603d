package purger

import (
	"context"
	"strconv"

	"github.com/cpnode/cpnode/ops"
)

// queue is the files whose objects may be deleted, and where the next round begins in it.
// It goes by age, behind as many of the oldest as were tried and not confirmed: one
// number, since the list is the control plane's. Where those are too many to be listed
// only to be passed over, it goes by file id instead, once from the first to the last.
type queue struct {
	plane      FileForgetter
	most       int64 // that are passed over
	passedOver int64
	after      string // the file id behind which to go on; empty: it goes by age
}

// firstID is below the id of every file.
const firstID = "0"

// due is files to try.
type due struct {
	files []ops.FileToDelete
	ids   []int64 // of the files, when the queue goes by id
	// more: there are files behind these, and next is the mark of the first.
	more bool
	next int64
	// passedMark is the mark of the oldest file that was passed over, or none.
	passedMark int64
}

// list asks for up to limit files that were marked before a time, and for one more, to tell
// more work from just as much.
func (q *queue) list(ctx context.Context, markedBefore, limit int64) (due, error) {
	if q.after != "" {
		return q.listByID(ctx, markedBefore, limit)
	}
	answer, err := q.plane.GetFilesToDelete(ctx, &ops.GetFilesToDeleteRequest{MarkedBefore: markedBefore, Limit: q.passedOver + limit + 1})
	if err != nil {
		return due{}, err
	}
	d := due{passedMark: none}
	passed := min(q.passedOver, int64(len(answer.Files)))
	if passed > 0 {
		d.passedMark = answer.Files[0].MarkedForDeletionAt
	}
	d.files = answer.Files[passed:]
	d.cut(limit)
	return d, nil
}

// listByID looks at all files behind the place, a bounded number in a question.
func (q *queue) listByID(ctx context.Context, markedBefore, limit int64) (due, error) {
	d := due{passedMark: none, ids: []int64{}}
	for after := q.after; after != "" && int64(len(d.files)) <= limit; {
		page, err := q.plane.ListFiles(ctx, &ops.ListFilesRequest{After: after, State: deleting})
		if err != nil {
			return due{}, err
		}
		for _, f := range page.Files {
			if f.MarkedForDeletionAt < markedBefore {
				d.files = append(d.files, ops.FileToDelete{ObjectKey: f.ObjectKey, MarkedForDeletionAt: f.MarkedForDeletionAt, Size: f.Size})
				d.ids = append(d.ids, f.FileID)
			}
		}
		after = page.Next
	}
	d.cut(limit)
	return d, nil
}

// deleting is the state of files that no batch refers to.
const deleting = "deleting"

func (d *due) cut(limit int64) {
	if d.more = int64(len(d.files)) > limit; d.more {
		d.next, d.files = d.files[limit].MarkedForDeletionAt, d.files[:limit]
	}
}

// tried takes in that the first so many files were tried, of which some were not confirmed.
// The next round begins behind them where untried ones are left, so that no files keep
// others from being tried; else with the oldest again.
func (q *queue) tried(d due, files int, failed int64) {
	untried := d.more || files < len(d.files)
	switch {
	case !untried:
		q.passedOver, q.after = 0, ""
	case q.after != "" && files > 0:
		q.after = strconv.FormatInt(d.ids[files-1], 10)
	case q.after == "":
		q.passedOver += failed
		if q.passedOver > q.most {
			q.passedOver, q.after = 0, firstID
		}
	}
}
