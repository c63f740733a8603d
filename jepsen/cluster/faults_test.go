package cluster

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The released binary's clock and network cannot be changed from outside: it has no
// word of it, and refuses the variables like any that it does not know.
func TestReleaseHasNoFaults(t *testing.T) {
	dir := t.TempDir()
	for name, flags := range map[string][]string{"released": nil, FaultsTag: {"-tags", FaultsTag}} {
		binary := filepath.Join(dir, name)
		require.NoError(t, Provide(t.Context(), "", binary, flags...))
		has, err := HasFaults(binary)
		require.NoError(t, err)
		require.Equal(t, name == FaultsTag, has)
		code, err := os.ReadFile(binary)
		require.NoError(t, err)
		for _, variable := range []string{dialFileVar, clockVar} {
			require.Equal(t, has, bytes.Contains(code, []byte(variable)), "%s in the binary that is %s", variable, name)
			serve := exec.CommandContext(t.Context(), binary, "config", "validate", "--node-id", "a")
			serve.Env = append(os.Environ(), variable+"=1")
			out, err := serve.CombinedOutput()
			if has {
				require.NoError(t, err, "%s", out)
				continue
			}
			require.Error(t, err)
			require.Contains(t, string(out), variable+": unknown key in the environment")
		}
	}
}
