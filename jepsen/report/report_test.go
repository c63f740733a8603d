package report

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReport(t *testing.T) {
	var out strings.Builder
	r := New(&out)
	r.Title("Part of %d", 1)
	r.Fact("stored", "%d batches", 7)
	r.Judged("start", "1s", "under 2s", true)
	require.Zero(t, r.Missed())
	r.Judged("copy", "3s", "under 2s", false)
	require.Equal(t, 1, r.Missed())
	require.NoError(t, r.Flush())
	require.Equal(t, `
Part of 1
  stored  7 batches  
  start   1s         met: under 2s
  copy    3s         MISSED: under 2s
`, out.String())
}

// failsOnce is a writer whose first write fails.
type failsOnce struct{ failed bool }

var errOut = errors.New("the pipe is closed")

func (f *failsOnce) Write(p []byte) (int, error) {
	if !f.failed {
		f.failed = true
		return 0, errOut
	}
	return len(p), nil
}

// A title prints what is before it, where an error must not be lost.
func TestFlushSaysWhatWasNotPrinted(t *testing.T) {
	r := New(&failsOnce{})
	r.Fact("stored", "1 batch")
	r.Title("Next")
	require.ErrorIs(t, r.Flush(), errOut)
}

func TestShort(t *testing.T) {
	for d, says := range map[time.Duration]string{
		1234567 * time.Nanosecond:    "1.23ms",
		9999 * time.Microsecond:      "10ms",
		123456 * time.Microsecond:    "123ms",
		61*time.Second + 4*time.Hour: "4h1m1s",
	} {
		require.Equal(t, says, Short(d))
	}
}
