package purger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/purger/objectstore"
)

// FileIndex is what FindOrphans needs of the control plane. Both *api.Embedded and
// *api.Client are one.
type FileIndex interface {
	ListFiles(context.Context, *ops.ListFilesRequest, ...api.Option) (*ops.ListFilesResponse, error)
	IsSafeToDeleteFile(context.Context, *ops.IsSafeToDeleteFileRequest, ...api.Option) (*ops.IsSafeToDeleteFileResponse, error)
}

var (
	_ FileIndex = (*api.Embedded)(nil)
	_ FileIndex = (*api.Client)(nil)
)

// OrphanOptions say what FindOrphans does.
type OrphanOptions struct {
	// ModifiedBefore spares younger objects, whose commit may be on its way: a day ago is
	// a good choice.
	ModifiedBefore time.Time
	// Delete deletes orphans, each after a fence that refuses a commit of its key from
	// then on.
	Delete bool
	// Found is told of each finding, one at a time; nil for nobody.
	Found func(Finding)
	// Progress is told how far it is, after each page; nil for nobody.
	Progress func(OrphanTotals)
}

// FindingKind says what is wrong with an object.
type FindingKind string

// The kinds of findings.
const (
	// Orphan: no file knows the object.
	Orphan FindingKind = "orphan"
	// Missing: batches refer to a file whose object is not there.
	Missing FindingKind = "missing"
	// SizeDiffers: the object is not as large as its file says.
	SizeDiffers FindingKind = "size_differs"
)

// Finding is one object that is not as it should be.
type Finding struct {
	Kind       FindingKind `json:"kind" doc:"orphan, missing or size_differs."`
	ObjectKey  string      `json:"object_key"`
	Size       int64       `json:"size" doc:"Of the object, in bytes; -1 when it is missing."`
	FileSize   int64       `json:"file_size" doc:"As the file says; -1 for an orphan."`
	ModifiedAt int64       `json:"modified_at" doc:"Of the object, Unix ms; -1 when it is missing."`
	Deleted    bool        `json:"deleted" doc:"The orphan's object was deleted."`
	// Err is why an orphan that was to be deleted was not.
	Err error `json:"-"`
}

// OrphanTotals count what was looked at and found.
type OrphanTotals struct {
	Objects      int64 `json:"objects" doc:"Objects looked at."`
	Files        int64 `json:"files" doc:"Files looked at, of those that batches refer to."`
	Orphans      int64 `json:"orphans"`
	OrphanBytes  int64 `json:"orphan_bytes"`
	Deleted      int64 `json:"deleted" doc:"Orphans that were deleted."`
	Missing      int64 `json:"missing" doc:"Files whose object is not there."`
	SizesDiffer  int64 `json:"sizes_differ"`
	YoungObjects int64 `json:"young_objects" doc:"Objects not looked up, for their age."`
}

const (
	orphanPage  = 1000 // objects or files that are held at a time
	orphanCalls = 16   // questions under way at a time
)

// FindOrphans compares the objects of a store with the files of the control plane: first
// each object is looked up among the files, then each file that batches refer to among
// the objects. It holds one page of either at a time. What is committed, deleted or
// cleaned meanwhile is no finding. It ends at the first question that is not answered,
// with the totals so far; an object that could not be deleted is a Finding with Err.
//
// The store must hold nothing but this cluster's objects, or what else it holds counts as
// orphans: see objectstore.WithPrefix.
func FindOrphans(ctx context.Context, objects objectstore.Store, index FileIndex, options OrphanOptions) (OrphanTotals, error) {
	f := &finder{objects: objects, index: index, OrphanOptions: options}
	if f.Found == nil {
		f.Found = func(Finding) {}
	}
	if f.Progress == nil {
		f.Progress = func(OrphanTotals) {}
	}
	err := f.lookUpObjects(ctx)
	if err == nil {
		err = f.lookUpFiles(ctx)
	}
	return f.totals, err
}

// finder is one comparison under way.
type finder struct {
	OrphanOptions
	objects objectstore.Store
	index   FileIndex
	totals  OrphanTotals
}

// each asks fn about each item, several at a time, and returns the answers in order.
func each[Item, Answer any](ctx context.Context, items []Item, fn func(context.Context, Item) (Answer, error)) ([]Answer, error) {
	answers := make([]Answer, len(items))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(orphanCalls)
	for i, item := range items {
		group.Go(func() (err error) {
			answers[i], err = fn(ctx, item)
			return err
		})
	}
	return answers, group.Wait()
}

// lookUpObjects finds the orphans.
func (f *finder) lookUpObjects(ctx context.Context) error {
	var page []objectstore.Object
	var failed error
	flush := func() bool {
		failed = f.lookUpPage(ctx, page)
		page = page[:0]
		return failed == nil
	}
	err := f.objects.List(ctx, "", "", func(o objectstore.Object) bool {
		f.totals.Objects++
		if !o.ModifiedAt.Before(f.ModifiedBefore) {
			f.totals.YoungObjects++
			return true
		}
		page = append(page, o)
		return len(page) < orphanPage || flush()
	})
	if err != nil {
		return fmt.Errorf("listing objects: %w", err)
	}
	if failed == nil {
		flush()
	}
	return failed
}

func (f *finder) lookUpPage(ctx context.Context, page []objectstore.Object) error {
	found, err := each(ctx, page, f.lookUpObject)
	if err != nil {
		return fmt.Errorf("looking up objects among the files: %w", err)
	}
	var orphans []*Finding
	for _, o := range found {
		if o != nil {
			orphans = append(orphans, o)
		}
	}
	f.deleteOrphans(ctx, orphans)
	for _, o := range orphans {
		f.totals.Orphans++
		f.totals.OrphanBytes += o.Size
		if o.Deleted {
			f.totals.Deleted++
		}
		f.Found(*o)
	}
	f.Progress(f.totals)
	return nil
}

// lookUpObject is the finding for an object that no file knows. When orphans are to be
// deleted, the same question fences the key.
func (f *finder) lookUpObject(ctx context.Context, o objectstore.Object) (*Finding, error) {
	finding := &Finding{Kind: Orphan, ObjectKey: o.Key, Size: o.Size, FileSize: -1, ModifiedAt: o.ModifiedAt.UnixMilli()}
	answer, err := f.index.IsSafeToDeleteFile(ctx, &ops.IsSafeToDeleteFileRequest{ObjectKey: o.Key, Fence: f.Delete})
	if errors.Is(err, &ops.Error{Code: ops.InvalidRequest}) { // not a key that a file can have, nor a fence
		finding.Err = err
		return finding, nil
	}
	if err != nil || !answer.Safe {
		return nil, err
	}
	// Its file may have been cleaned since it was listed, and forgotten before the question.
	if _, err := f.objects.Stat(ctx, o.Key); err != nil {
		if errors.Is(err, objectstore.ErrNotFound) {
			err = nil
		}
		return nil, err
	}
	return finding, nil
}

// deleteOrphans deletes the objects of those that were fenced.
func (f *finder) deleteOrphans(ctx context.Context, orphans []*Finding) {
	if !f.Delete {
		return
	}
	var fenced []*Finding
	var keys []string
	for _, o := range orphans {
		if o.Err == nil {
			fenced, keys = append(fenced, o), append(keys, o.ObjectKey)
		}
	}
	for i, err := range f.objects.Delete(ctx, keys) {
		fenced[i].Deleted, fenced[i].Err = err == nil, err
	}
}

// lookUpFiles finds objects that are missing, and sizes that differ.
func (f *finder) lookUpFiles(ctx context.Context) error {
	for after := ""; ; {
		page, err := f.index.ListFiles(ctx, &ops.ListFilesRequest{After: after, Limit: orphanPage, State: uploaded})
		if err != nil {
			return fmt.Errorf("listing files: %w", err)
		}
		found, err := each(ctx, page.Files, f.lookUpFile)
		if err != nil {
			return fmt.Errorf("looking up files among the objects: %w", err)
		}
		f.totals.Files += int64(len(page.Files))
		for _, finding := range found {
			f.foundOfFile(finding)
		}
		f.Progress(f.totals)
		if after = page.Next; after == "" {
			return nil
		}
	}
}

// uploaded is the state of files that batches refer to.
const uploaded = "uploaded"

func (f *finder) foundOfFile(finding *Finding) {
	if finding == nil {
		return
	}
	if finding.Kind == Missing {
		f.totals.Missing++
	} else {
		f.totals.SizesDiffer++
	}
	f.Found(*finding)
}

// lookUpFile is the finding for a file whose object is not as the file says.
func (f *finder) lookUpFile(ctx context.Context, file ops.FileInfo) (*Finding, error) {
	o, err := f.objects.Stat(ctx, file.ObjectKey)
	switch {
	case errors.Is(err, objectstore.ErrNotFound):
		still, err := f.stillUploaded(ctx, file)
		if err != nil || !still {
			return nil, err
		}
		return &Finding{Kind: Missing, ObjectKey: file.ObjectKey, Size: -1, FileSize: file.Size, ModifiedAt: -1}, nil
	case err != nil:
		return nil, err
	case o.Size != file.Size:
		return &Finding{Kind: SizeDiffers, ObjectKey: file.ObjectKey, Size: o.Size, FileSize: file.Size, ModifiedAt: o.ModifiedAt.UnixMilli()}, nil
	}
	return nil, nil
}

// stillUploaded says whether batches refer to the file after its object was not found.
// If not, it may have been cleaned since it was listed.
func (f *finder) stillUploaded(ctx context.Context, file ops.FileInfo) (bool, error) {
	page, err := f.index.ListFiles(ctx, &ops.ListFilesRequest{After: strconv.FormatInt(file.FileID-1, 10), Limit: 1})
	if err != nil {
		return false, err
	}
	return len(page.Files) > 0 && page.Files[0].FileID == file.FileID && page.Files[0].State == uploaded, nil
}
