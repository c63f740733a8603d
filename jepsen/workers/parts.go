package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// grown says whether a state file of so many bytes is larger than it may be, and by how
// much: while rows are taken, pages of the old state are kept until the new one is
// synced.
func grown(before, now int64) (target string, met bool) {
	const most, slack = 1.1, 1 << 20
	return fmt.Sprintf("at most %gx and 1 MiB (%.2fx)", most, float64(now)/float64(before)), float64(now) <= most*float64(before)+slack
}

// reportWatch prints what was seen from beside, and judges it. before is the state
// file's size before the topic was deleted.
func (h *harness) reportWatch(before int64) error {
	o := h.watch
	story(h.out, o.samples)
	h.out.Title("Judged from beside")
	if o.failed != nil {
		return o.failed
	}
	if len(o.tooEarly) > 0 {
		return fmt.Errorf("%d objects were deleted before the grace of their file had passed, the first: %s", len(o.tooEarly), o.tooEarly[0])
	}
	if o.judged == 0 {
		return errors.New("no object was seen to go whose mark was known: nothing is said of the grace")
	}
	h.out.Fact("grace", "none of %d objects went within %s of its mark", o.judged, h.grace)
	target, met := grown(before, h.drained)
	h.out.Judged("state file", fmt.Sprintf("%s before, at most %s while it was drained", megabytes(before), megabytes(h.drained)), target, met)
	h.out.Fact("after the nodes were started", "at most %s", megabytes(o.largest()))
	return nil
}

// stateBytes is the size of the largest state file.
func (h *harness) stateBytes() (bytes int64) {
	for _, n := range h.cluster.Nodes {
		bytes = max(bytes, stateBytes(n))
	}
	return bytes
}

// refill stores as many batches as went, which the pages that they left have room for.
func (h *harness) refill(ctx context.Context) error {
	before := h.stateBytes()
	if err := h.load.fill(ctx, h.batches/2/perFile, onlyKept); err != nil {
		return err
	}
	if _, err := h.cluster.Settle(ctx); err != nil {
		return err
	}
	after := h.stateBytes()
	target, met := grown(before, after)
	h.out.Judged("as many batches stored again", fmt.Sprintf("%s before, %s after: free pages are used", megabytes(before), megabytes(after)), target, met)
	return nil
}

// verify reads all that is to be there.
func (h *harness) verify(ctx context.Context) error {
	batches, err := h.load.verify(ctx)
	if err != nil {
		return err
	}
	h.out.Fact("the other topic", "%d batches found, the bytes of their %d objects compared", batches, len(h.load.keep))
	h.out.Fact("the store", "holds these objects and no other")
	return h.load.verifyStore(ctx)
}

// orphans has the command line look into the store, before and after an object turned up
// that nobody committed.
func (h *harness) orphans(ctx context.Context) error {
	const stranger = "wal/stranger"
	if out, err := h.checkObjects(ctx); err != nil {
		return fmt.Errorf("check --objects: %w: %s", err, out)
	}
	if err := h.load.objects.Put(ctx, stranger, strings.NewReader("x"), 1); err != nil {
		return err
	}
	out, err := h.checkObjects(ctx)
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || !strings.Contains(out, stranger) {
		return fmt.Errorf("check --objects did not find the orphan: %w: %s", err, out)
	}
	if out, err := h.checkObjects(ctx, "--delete", "--yes"); err != nil {
		return fmt.Errorf("check --objects --delete: %w: %s", err, out)
	}
	h.out.Fact("check --objects", "clean; one object put beside: found, deleted")
	return h.load.verifyStore(ctx)
}

func (h *harness) checkObjects(ctx context.Context, more ...string) (string, error) {
	args := append([]string{"check", "--objects", "--older-than", "0s", "--endpoints", strings.Join(h.endpoints(), ",")}, h.load.objects.flags...)
	out, err := exec.CommandContext(ctx, h.binary, append(args, more...)...).CombinedOutput()
	return string(out), err
}

// check stops the nodes and lets cpnode check their files.
func (h *harness) check(ctx context.Context) error {
	if err := h.cluster.StopAlike(ctx); err != nil {
		return err
	}
	h.out.Title("Files of the stopped nodes")
	digests := map[string]bool{}
	for _, n := range h.cluster.Nodes {
		c, err := h.cluster.CheckState(ctx, n)
		if err != nil {
			return err
		}
		if !c.Clean {
			return fmt.Errorf("the files of node %s are damaged: %s", n.ID, c.Answer)
		}
		digests[c.Digest] = true
		h.out.Fact("node "+n.ID, "clean, %d batches, digest %s", c.Batches, c.Digest)
	}
	if len(digests) != 1 {
		return fmt.Errorf("the nodes have %d digests", len(digests))
	}
	return nil
}
