package purger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/purger/objectstore"
	"github.com/cpnode/cpnode/worker"
)

// FileForgetter is what the FileCleaner needs of the control plane. Both *api.Embedded
// and *api.Client are one.
type FileForgetter interface {
	GetFilesToDelete(context.Context, *ops.GetFilesToDeleteRequest, ...api.Option) (*ops.GetFilesToDeleteResponse, error)
	ListFiles(context.Context, *ops.ListFilesRequest, ...api.Option) (*ops.ListFilesResponse, error)
	DeleteFiles(context.Context, *ops.DeleteFilesRequest, ...api.Option) (*ops.DeleteFilesResponse, error)
}

var (
	_ FileForgetter = (*api.Embedded)(nil)
	_ FileForgetter = (*api.Client)(nil)
)

// FileCleanerConfig is file.cleaner.* of the configuration.
type FileCleanerConfig struct {
	Interval         time.Duration
	Retention        time.Duration // between marking a file and deleting its object
	MaxFilesPerCycle int64         // 0 = all
	// StoreTimeout bounds the wait for the object store to delete BatchFiles objects.
	StoreTimeout time.Duration
	// BatchFiles is how many objects are deleted, and files then forgotten, in one go: what
	// the store confirmed and nobody was told yet when the node dies.
	BatchFiles int
	// RoundFiles is how many files are asked for and held at a time. PassedOver bounds
	// those that are asked for only to be passed over.
	RoundFiles, PassedOver int64
}

// DefaultFileCleanerConfig is what docs/configuration.md says.
func DefaultFileCleanerConfig() FileCleanerConfig {
	return FileCleanerConfig{
		Interval: 2 * time.Minute, Retention: time.Minute, MaxFilesPerCycle: 20_000,
		StoreTimeout: time.Minute, BatchFiles: 1000, RoundFiles: 20_000, PassedOver: 50_000,
	}
}

// Validate names the first field that is wrong.
func (c *FileCleanerConfig) Validate() error {
	switch {
	case c.Interval <= 0:
		return fmt.Errorf("Interval: must be positive")
	case c.Retention < 0:
		return fmt.Errorf("Retention: must not be negative")
	case c.MaxFilesPerCycle < 0:
		return fmt.Errorf("MaxFilesPerCycle: must not be negative")
	case c.StoreTimeout <= 0:
		return fmt.Errorf("StoreTimeout: must be positive")
	case c.BatchFiles < 1:
		return fmt.Errorf("BatchFiles: must be at least 1")
	case c.RoundFiles < 1:
		return fmt.Errorf("RoundFiles: must be at least 1")
	case c.PassedOver < 0:
		return fmt.Errorf("PassedOver: must not be negative")
	}
	return nil
}

// Within is the config with requests that a control plane with these limits takes, and
// answers that it gives whole.
func (c FileCleanerConfig) Within(l ops.Limits) FileCleanerConfig {
	c.BatchFiles = min(c.BatchFiles, l.Items)
	c.PassedOver = min(c.PassedOver, int64(l.AnswerRows)/2)
	c.RoundFiles = max(1, min(c.RoundFiles, int64(l.AnswerRows)-c.PassedOver-1))
	return c
}

// LongestDeletion is how long after a cycle asked what to delete an object of its may be
// deleted: keys of forgotten files must be fenced for longer.
func (c *FileCleanerConfig) LongestDeletion() time.Duration { return maxListAge + c.StoreTimeout }

// FileCleaner deletes the objects of files that were marked long enough ago, and then
// has exactly those files forgotten whose object the store confirmed to be gone.
type FileCleaner struct {
	worker  *worker.Worker
	config  FileCleanerConfig
	plane   FileForgetter
	objects objectstore.Store
	backlog *backlog
	queue   queue // only a cycle, of which one runs at a time, uses it

	deleted, bytes, failed, forgotten prometheus.Counter
}

// CleanTotals is what one cycle did.
type CleanTotals struct {
	ObjectsDeleted int64 `json:"objects_deleted" doc:"Objects that the object store confirmed to be gone."`
	BytesDeleted   int64 `json:"bytes_deleted"`
	FilesForgotten int64 `json:"files_forgotten"`
	ObjectsFailed  int64 `json:"objects_failed" doc:"Objects that were tried and not confirmed; they stay for the next cycle."`
	CapReached     bool  `json:"cap_reached" doc:"More files were due than one cycle takes."`

	oldestLeft int64 // mark of the oldest file that was due and stays, or none
}

// maxListAge is how long a cycle trusts what it was told to delete: well below the
// time that a forgotten key is fenced, after which its object could be another's. A
// node that no longer leads and does not know yet may be held up for any time.
const maxListAge = 5 * time.Minute

// errStoreSlow is why a deletion was given up.
var errStoreSlow = errors.New("the object store did not answer in time")

// NewFileCleaner makes one that does nothing until it runs. config must be valid.
func NewFileCleaner(config FileCleanerConfig, plane FileForgetter, objects objectstore.Store, deps worker.Deps) *FileCleaner {
	m := worker.Metrics{Prefix: "file_cleaner", Registerer: deps.Registerer}
	w := worker.New("file-cleaner", m, deps)
	return &FileCleaner{
		worker: w, config: config, plane: plane, objects: objects, backlog: newBacklog(m, w.Clock),
		queue:     queue{plane: plane, most: config.PassedOver},
		deleted:   m.Counter("objects_deleted_total", "Objects whose deletion the object store confirmed."),
		bytes:     m.Counter("deleted_bytes_total", "Size of the objects that were deleted."),
		failed:    m.Counter("objects_failed_total", "Objects whose deletion the object store did not confirm; they are tried again."),
		forgotten: m.Counter("files_total", "Files forgotten after their object was gone."),
	}
}

// Run cleans until ctx ends, at once and then every interval: sooner after a cycle that
// left files that were due, or that failed. It waits for a cycle under way, which ends with ctx.
func (c *FileCleaner) Run(ctx context.Context) {
	defer c.backlog.forget()
	c.worker.Repeat(ctx, func() (time.Duration, error) {
		t, err := c.RunOnce(ctx)
		return pace(c.config.Interval, t.oldestLeft != none), err
	})
}

// RunOnce carries out one cycle now, after one that is under way. The totals are true
// also with an error, which is the control plane's (*ops.Error) or the object store's:
// one object that was not confirmed makes the cycle fail, after the others were done.
func (c *FileCleaner) RunOnce(ctx context.Context) (totals CleanTotals, err error) {
	err = c.worker.Once(ctx, func(ctx context.Context) (err error) {
		began := c.worker.Clock.Now()
		totals, err = c.clean(ctx)
		c.record(totals, err, c.worker.Clock.Since(began))
		return err
	})
	return totals, err
}

func (c *FileCleaner) record(t CleanTotals, err error, took time.Duration) {
	if t.CapReached && err == nil {
		c.backlog.saturated.Inc()
	}
	if err == nil || t.oldestLeft != none { // else nothing is known
		c.backlog.left(t.CapReached || t.oldestLeft != none, t.oldestLeft)
	}
	if t.ObjectsDeleted > 0 {
		c.worker.Logger.Info("deleted objects", "objects", t.ObjectsDeleted, "bytes", t.BytesDeleted, "files_forgotten", t.FilesForgotten,
			"failed", t.ObjectsFailed, "cap_reached", t.CapReached, "took", took)
	}
}

// clean is as many rounds as the cap allows, or without one as there is work for. A cycle
// with a cap ends with a round that came to less than it was to.
func (c *FileCleaner) clean(ctx context.Context) (CleanTotals, error) {
	total, capped := CleanTotals{oldestLeft: none}, c.config.MaxFilesPerCycle > 0
	for left := c.config.MaxFilesPerCycle; ; {
		limit := c.config.RoundFiles
		if capped {
			limit = min(limit, left)
		}
		full, err := c.round(ctx, limit, &total)
		left -= limit
		if err != nil || !total.CapReached || capped && (left == 0 || !full) {
			return total, err
		}
		total.CapReached = false
	}
}

// round tries up to limit files, and says whether it tried so many.
func (c *FileCleaner) round(ctx context.Context, limit int64, total *CleanTotals) (full bool, err error) {
	listedAt := c.worker.Clock.Now()
	d, err := c.queue.list(ctx, listedAt.Add(-c.config.Retention).UnixMilli(), limit)
	if err != nil {
		return false, fmt.Errorf("asking for files to delete: %w", err)
	}
	total.oldestLeft, total.CapReached = d.passedMark, d.more
	if d.more {
		total.leaves(d.next)
	}
	failedBefore := total.ObjectsFailed
	tried, err := c.batches(ctx, d.files, listedAt, total)
	c.queue.tried(d, tried, total.ObjectsFailed-failedBefore)
	return int64(tried) == limit, err
}

// batches cleans files batch by batch. One that the store refuses does not hold up the
// others. It ends early when the list is too old to be trusted, or the store does not
// answer in time; tried says how far it came.
func (c *FileCleaner) batches(ctx context.Context, files []ops.FileToDelete, listedAt time.Time, total *CleanTotals) (tried int, failed error) {
	for tried < len(files) {
		batch := files[tried:min(tried+c.config.BatchFiles, len(files))]
		if c.worker.Clock.Since(listedAt) > maxListAge {
			total.CapReached = true
			total.leaves(batch[0].MarkedForDeletionAt)
			break
		}
		tried += len(batch)
		confirmed, err := c.deleteObjects(ctx, batch, total)
		if failed == nil {
			failed = err
		}
		if err := c.forget(ctx, confirmed, total); err != nil {
			total.leaves(batch[0].MarkedForDeletionAt)
			return tried, err
		}
		if errors.Is(err, errStoreSlow) || ctx.Err() != nil {
			break
		}
	}
	return tried, failed
}

// leaves notes the mark of a file that stays.
func (t *CleanTotals) leaves(markedAt int64) {
	if t.oldestLeft == none || markedAt < t.oldestLeft {
		t.oldestLeft = markedAt
	}
}

// deleteObjects deletes the objects of a batch, and returns the keys that the store
// confirmed. The error says how many it did not, and why the first.
func (c *FileCleaner) deleteObjects(ctx context.Context, batch []ops.FileToDelete, total *CleanTotals) (confirmed []string, err error) {
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer c.worker.Clock.AfterFunc(c.config.StoreTimeout, func() { cancel(errStoreSlow) }).Stop()
	keys := make([]string, len(batch))
	for i, f := range batch {
		keys[i] = f.ObjectKey
	}
	bytes, failed := int64(0), 0
	for i, keyErr := range c.objects.Delete(bounded, keys) {
		if keyErr == nil {
			confirmed = append(confirmed, keys[i])
			bytes += batch[i].Size
			continue
		}
		if failed++; failed == 1 {
			err = keyErr
		}
		total.leaves(batch[i].MarkedForDeletionAt)
	}
	total.ObjectsDeleted += int64(len(confirmed))
	total.BytesDeleted += bytes
	total.ObjectsFailed += int64(failed)
	c.deleted.Add(float64(len(confirmed)))
	c.bytes.Add(float64(bytes))
	c.failed.Add(float64(failed))
	if failed > 0 {
		if cause := context.Cause(bounded); cause != nil {
			err = cause
		}
		err = fmt.Errorf("object store: %d of %d objects not confirmed as deleted, the first: %w", failed, len(batch), err)
	}
	return confirmed, err
}

// forget reports confirmed keys. None can be in use: a file that was marked stays so.
func (c *FileCleaner) forget(ctx context.Context, keys []string, total *CleanTotals) error {
	if len(keys) == 0 {
		return nil
	}
	answer, err := c.plane.DeleteFiles(ctx, &ops.DeleteFilesRequest{ObjectKeys: keys})
	if err != nil {
		return fmt.Errorf("forgetting files: %w", err)
	}
	refused := slices.DeleteFunc(answer.Files, func(f ops.DeletedFile) bool { return f.Error == ops.None })
	forgotten := int64(len(keys) - len(refused))
	total.FilesForgotten += forgotten
	c.forgotten.Add(float64(forgotten))
	if len(refused) > 0 {
		return fmt.Errorf("%d files were not forgotten though their objects are gone, the first: %s: %s", len(refused), refused[0].ObjectKey, refused[0].Error)
	}
	return nil
}
