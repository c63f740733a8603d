package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An operator takes a topic through the switch by hand: begins it, looks, tries a seal,
// is asked, seals, and sees it all in a watch.
func TestSwitchCommands(t *testing.T) {
	n := startDev(t, t.TempDir())
	endpoint := "--endpoints=" + n.url
	require.NoError(t, registerDemoBrokers(t.Context(), n.client))
	require.NoError(t, registerDemoLedger(t.Context(), n.client))

	status := mustRun(t, "switch", "status", endpoint)
	require.Regexp(t, `ledger-0 +CLASSIC +- +0 +0 +0,1,2 +0,1,2 +0,1,2\n`, status)
	require.Contains(t, mustRun(t, "switch", "begin", "ledger", endpoint), "topic ledger is in the switch")
	require.Contains(t, mustRun(t, "switch", "status", "ledger", "-o=json", endpoint), `"state": "SWITCH_PENDING"`)
	r := cpnode(t, "switch", "begin", "none", endpoint)
	require.Equal(t, exitFailed, r.code)

	override := []string{"switch", "override", "ledger", "0", "--seal=70", "--log-start-offset=0", "--log-end-offset=100", endpoint}
	require.Contains(t, mustRun(t, append(override, "--dry-run")...), "would: ledger-0 is sealed at 70; the classic records 70 to 99 become unreadable")
	r = cpnode(t, override...) // nobody says yes
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "records 70 to 99 become unreadable. Go on? [y/N]")
	require.Contains(t, mustRun(t, "switch", "status", endpoint), "SWITCH_PENDING")
	require.Contains(t, mustRun(t, append(override, "--yes")...), "done: ledger-0 is sealed at 70")
	require.Regexp(t, `ledger-0 +PREFIX_WAITING_FOR_UPLOAD +70 `, mustRun(t, "switch", "status", endpoint))
	r = cpnode(t, "switch", "override", "ledger", "0", "--abort", "--yes", endpoint)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "INVALID_REQUEST: the partition is sealed at 70")

	seen := mustRun(t, "switch", "watch", "--from-index=0", "--events=9", endpoint)
	for _, line := range []string{"broker 0: fenced, epoch 1\n", "broker 2: live, epoch 3\n", "topic ledger: classic, 1 partitions\n",
		"ledger-0: CLASSIC, seal -, leader 0 epoch 0, isr 0,1,2\n", "ledger-0: PREFIX_WAITING_FOR_UPLOAD, seal 70, leader 0 epoch 1, isr 0,1,2\n"} {
		require.Contains(t, seen, line)
	}
	lines := strings.Split(strings.TrimSpace(mustRun(t, "switch", "watch", "--from-index=0", "--events=9", "-o=json", endpoint)), "\n")
	require.Len(t, lines, 9)
	require.Regexp(t, `^{"event":"change","index":\d+,"brokers":\[{"broker_id":0,`, lines[0])
}
