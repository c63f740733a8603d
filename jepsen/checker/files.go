package checker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
)

// checked is what of the answer of `cpnode check -o json` is needed here.
type checked struct {
	Clean     bool `json:"clean"`
	Directory struct {
		State struct {
			AppliedIndex uint64 `json:"applied_index"`
			Digest       string `json:"digest"`
		} `json:"state"`
	} `json:"directory"`
}

// checkFiles has the run's own binary check every node's directory, and compares the
// digests of those that ended at the same index.
func (v *Verdict) checkFiles(ctx context.Context, dir string, nodes []string) error {
	digests := map[uint64]string{}
	for _, node := range nodes {
		out, c, err := checkDir(ctx, filepath.Join(dir, BinaryFile), filepath.Join(dir, node))
		if err != nil {
			return err
		}
		if !c.Clean {
			v.fail(CheckFiles, nil, "node %s: %s", node, out)
			continue
		}
		s := c.Directory.State
		if other, ok := digests[s.AppliedIndex]; ok && other != s.Digest {
			v.fail(CheckReplicas, nil, "node %s has digest %s at index %d, another one %s", node, s.Digest, s.AppliedIndex, other)
		}
		digests[s.AppliedIndex] = s.Digest
	}
	if len(digests) > 1 {
		v.unknown("the nodes stopped at different indexes: %v", digests)
	}
	return nil
}

// checkDir checks one directory. The exit code says no more than the answer.
func checkDir(ctx context.Context, binary, dir string) (out []byte, c checked, err error) {
	out, exit := exec.CommandContext(ctx, binary, "check", dir, "-o", "json").Output()
	if err := json.Unmarshal(out, &c); err != nil {
		return out, c, fmt.Errorf("cpnode check %s: %w", dir, errors.Join(err, exit))
	}
	return out, c, nil
}
