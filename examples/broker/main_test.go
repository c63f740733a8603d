package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/store"
)

func TestMain(m *testing.M) {
	store.ChildMain()
	brokerMain()
	os.Exit(m.Run())
}

// runs shows what the flags ask for, and returns the timeline.
func runs(t *testing.T, flags ...string) (timeline string, err error) {
	t.Parallel()
	dir := t.TempDir()
	var output bytes.Buffer
	err = run(t.Context(), append(flags, "--dir", dir), &output)
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		t.Log(output.String())
		outputs, _ := filepath.Glob(filepath.Join(dir, "*", "*", "output"))
		for _, name := range outputs {
			text, _ := os.ReadFile(name)
			t.Logf("%s: %s", name, text[max(len(text)-8<<10, 0):])
		}
	})
	return output.String(), err
}

// The longest comes first: two run at a time.
func TestFollowersWiped(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: waits for several sessions to end")
	}
	timeline, err := runs(t, "--wiped", "--session", "2s")
	require.NoError(t, err)
	require.Contains(t, timeline, "another follower leads, and the switch completes")
	require.Contains(t, timeline, "nobody serves the partition")
}

func TestSwitch(t *testing.T) {
	timeline, err := runs(t, "--once")
	require.NoError(t, err)
	require.Regexp(t, `broker 1: offsets 0 to \d+ read: .*\d+ remote`, timeline)
	require.Regexp(t, `the flag: ISR .* -> \[1 2 3\], leader epoch`, timeline)
}

func TestSwitchNeedsTheRemoteBytes(t *testing.T) {
	_, err := runs(t, "--once", "--remote", "none")
	require.ErrorContains(t, err, "remote segment is listed, and its bytes are not there")
}

func TestLeaderKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: waits for several sessions to end")
	}
	timeline, err := runs(t, "--kill", "after-begin,after-flag,during-deletion", "--session", "2s", "--restart-after", "200ms")
	require.NoError(t, err)
	require.Contains(t, timeline, "was killed during-deletion")
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		flags []string
		err   string
	}{
		{nil, "give --once, --kill, --wiped or --rebuilt"},
		{[]string{"--once", "more"}, "there are no arguments"},
		{[]string{"--kill", "after-lunch"}, "there is no point"},
		{[]string{"--once", "--remote", "s3"}, "must be directory or none"},
	} {
		_, err := parse(c.flags, t.Output())
		require.ErrorContains(t, err, c.err)
	}
}
