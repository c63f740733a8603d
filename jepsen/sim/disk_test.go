package sim

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a node writes about itself is durable at once. A second power cut once brought
// back what the first one had left: a node with a state of a cluster that it was not in.
func TestIdentityOutlivesPowerCuts(t *testing.T) {
	d := newDisk(t.TempDir())
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	for _, text := range []string{"new", "adopted", "joined"} {
		path := filepath.Join(d.dir, identityFile)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		left, err := d.cut(random)
		require.NoError(t, err)
		require.NoError(t, d.restore(left))
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(data))
	}
}
