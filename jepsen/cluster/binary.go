package cluster

import (
	"context"
	"debug/buildinfo"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// FaultsTag is the build tag of a cpnode whose clock and network can be changed from
// outside.
const FaultsTag = "faults"

// Provide puts the binary that is to run at target, so that a run can be judged and
// repeated with it: a copy of given, or one that is built from this module with these
// flags of go build when given is empty.
func Provide(ctx context.Context, given, target string, flags ...string) error {
	if given == "" {
		args := append([]string{"build", "-o", target}, flags...)
		build := exec.CommandContext(ctx, "go", append(args, "github.com/cpnode/cpnode/cmd/cpnode")...)
		build.Stderr = os.Stderr
		return build.Run()
	}
	data, err := os.ReadFile(given)
	if err != nil {
		return err
	}
	return os.WriteFile(target, data, 0o700)
}

// HasFaults says whether a binary was built with the tag faults.
func HasFaults(binary string) (bool, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return false, err
	}
	for _, s := range info.Settings {
		if s.Key == "-tags" {
			return slices.Contains(strings.Split(s.Value, ","), FaultsTag), nil
		}
	}
	return false, nil
}
