package cluster

import (
	"context"
	"os"
	"os/exec"
)

// Provide puts the binary that is to run at target, so that a run can be judged and
// repeated with it: a copy of given, or one that is built from this module when given
// is empty.
func Provide(ctx context.Context, given, target string) error {
	if given == "" {
		build := exec.CommandContext(ctx, "go", "build", "-o", target, "github.com/cpnode/cpnode/cmd/cpnode")
		build.Stderr = os.Stderr
		return build.Run()
	}
	data, err := os.ReadFile(given)
	if err != nil {
		return err
	}
	return os.WriteFile(target, data, 0o700)
}
