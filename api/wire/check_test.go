package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckRefusesWhatDecodeRefuses(t *testing.T) {
	for want, spoil := range map[string]func(*everything){
		"tiny: must be >= -1":                func(v *everything) { v.Tiny = -2 },
		"medium: must be >= 0":               func(v *everything) { v.Medium = -1 },
		"name: must be at most 8 bytes":      func(v *everything) { v.Name = "123456789" },
		"mode: must be one of: fast, safe":   func(v *everything) { v.Mode = "slow" },
		"keys[1]: must be at most 8 bytes":   func(v *everything) { v.Keys = []string{"", "123456789"} },
		"note: is not valid UTF-8":           func(v *everything) { v.Note = "\xff" },
		`config["a"]: is not valid UTF-8`:    func(v *everything) { v.Config = map[string]string{"a": "\xff"} },
		`config["\xff"]: is not valid UTF-8`: func(v *everything) { v.Config = map[string]string{"\xff": ""} },
	} {
		v := full()
		require.NoError(t, Check(v))
		spoil(v)
		require.EqualError(t, Check(v), want)
	}
}

func TestCheckNamesTheElement(t *testing.T) {
	req := sampleCommit(4)
	require.NoError(t, Check(req))
	req.Batches[3].ByteSize = 0
	require.EqualError(t, Check(req), "batches[3].byte_size: must be > 0")
	req.Batches[2].Partition = -1
	require.EqualError(t, Check(req), "batches[2].partition: must be >= 0")
}

func TestDefaultsAreThoseOfDecode(t *testing.T) {
	var decoded everything
	require.NoError(t, Decode(JSON, []byte(`{"large":0}`), &decoded, Limits{}))
	require.Equal(t, decoded, Defaults[everything]())
}
