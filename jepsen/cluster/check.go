package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
)

// Check says whether `cpnode check` finds the files of a node clean, which is down.
func (c *Cluster) Check(ctx context.Context, n *Node) (clean bool, err error) {
	err = exec.CommandContext(ctx, c.binary, "check", n.Dir).Run()
	var found *exec.ExitError
	if errors.As(err, &found) {
		return false, nil
	}
	return err == nil, err
}

// Checked is what `cpnode check` says of the files of a node.
type Checked struct {
	Clean        bool
	Digest       string // of the state; equal ones at the same index are equal states
	AppliedIndex uint64
	Batches      int
	Answer       []byte // all of it, as JSON
}

// CheckState checks the files of a node like Check, and says what state they hold. Damage
// is no error; that nothing could be said of them is.
func (c *Cluster) CheckState(ctx context.Context, n *Node) (Checked, error) {
	answer, err := exec.CommandContext(ctx, c.binary, "check", n.Dir, "-o", "json").Output()
	var found *exec.ExitError
	if errors.As(err, &found) && len(answer) == 0 {
		return Checked{}, fmt.Errorf("check %s: %w: %s", n.Dir, err, found.Stderr)
	}
	if err != nil && found == nil {
		return Checked{}, fmt.Errorf("check %s: %w", n.Dir, err)
	}
	var report struct {
		Clean     bool `json:"clean"`
		Directory struct {
			State struct {
				Digest       string `json:"digest"`
				AppliedIndex uint64 `json:"applied_index"`
				Totals       struct {
					Batches int `json:"batches"`
				} `json:"totals"`
			} `json:"state"`
		} `json:"directory"`
	}
	if err := json.Unmarshal(answer, &report); err != nil {
		return Checked{}, fmt.Errorf("check %s: %w", n.Dir, err)
	}
	state := report.Directory.State
	return Checked{report.Clean, state.Digest, state.AppliedIndex, state.Totals.Batches, answer}, nil
}
