package raftnode

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

var (
	pauseRounds = flag.Int("pause.rounds", 3, "pauses of the leader in TestReadsAfterPauses")
	pauseVerify = flag.Bool("pause.verifyleader", false, "confirm reads by raft's VerifyLeader instead, and only count stale ones")
)

// A node in a process of its own, which can be stopped and continued. Requests
// and answers are lines: "create", "commit KEY" and "read" are answered by
// "ok HIGH_WATERMARK" of partition 0, or "no ERROR".
const processArg = "raftnode-test-process"

type processConfig struct {
	ID, Dir, Addr string
	Peers         []Peer
	Control       string
	VerifyLeader  bool
}

// runProcess is the main function of such a process; it ends with its input.
func runProcess(arg string) error {
	var p processConfig
	if err := json.Unmarshal([]byte(arg), &p); err != nil {
		return err
	}
	c := DefaultConfig()
	c.NodeID, c.DataDir, c.RaftAddr, c.Peers = p.ID, p.Dir, p.Addr, p.Peers
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = 200*time.Millisecond, 200*time.Millisecond, 200*time.Millisecond
	if p.VerifyLeader {
		c.confirm = verifyLeader
	}
	n, err := Open(c)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", p.Control)
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serveLines(n, conn)
		}
	}()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func serveLines(n *Node, conn net.Conn) {
	defer conn.Close()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		at, err := answerLine(n, lines.Text())
		if err != nil {
			fmt.Fprintf(conn, "no %v\n", err)
		} else {
			fmt.Fprintf(conn, "ok %d\n", at)
		}
	}
}

func answerLine(n *Node, line string) (int64, error) {
	verb, key, _ := strings.Cut(line, " ")
	ctx := context.Background()
	switch verb {
	case "create":
		_, err := n.Propose(ctx, &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: testTopic, TopicName: "t", NumPartitions: 1}}})
		return 0, err
	case "commit":
		r, err := commit(ctx, n, key, 0)
		if err != nil {
			return 0, err
		}
		return r.Answer.(*ops.CommitFileResponse).Batches[0].AssignedBaseOffset + 10, nil
	default:
		at, _, err := highWatermark(ctx, n, ReadOptions{}, 0)
		return at, err
	}
}

// process is a node's process as the test sees it.
type process struct {
	cmd     *exec.Cmd
	control string
}

// ask sends one line over a connection of its own, and waits for the answer.
func (p *process) ask(line string, timeout time.Duration) (int64, error) {
	conn, err := net.DialTimeout("tcp", p.control, timeout)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return 0, err
	}
	if _, err := fmt.Fprintln(conn, line); err != nil {
		return 0, err
	}
	var verdict string
	var at int64
	if _, err := fmt.Fscan(conn, &verdict, &at); err != nil || verdict != "ok" {
		return 0, fmt.Errorf("%s: %w", verdict, err)
	}
	return at, nil
}

func startProcesses(t *testing.T) []*process {
	t.Helper()
	c := newCluster(t, nil)
	all := make([]*process, len(c.configs))
	for i, config := range c.configs {
		control := freeAddr(t)
		arg, err := json.Marshal(processConfig{
			ID: config.NodeID, Dir: config.DataDir, Addr: config.RaftAddr, Peers: config.Peers,
			Control: control, VerifyLeader: *pauseVerify,
		})
		require.NoError(t, err)
		p := &process{cmd: exec.Command(os.Args[0], processArg, string(arg)), control: control}
		p.cmd.Stderr = os.Stderr
		input, err := p.cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, p.cmd.Start())
		t.Cleanup(func() {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
			_ = input.Close()
		})
		all[i] = p
	}
	return all
}

// pauses is the state of the test: what is known to be acknowledged, and whom the
// readers ask.
type pauses struct {
	nodes  []*process
	acked  atomic.Int64
	target atomic.Pointer[process]
	reads  atomic.Int64
	stale  atomic.Int64
	keys   int
}

// read asks the target; an answer must cover what was acknowledged before.
func (p *pauses) read() {
	before := p.acked.Load()
	at, err := p.target.Load().ask("read", 5*time.Second)
	if err != nil {
		return
	}
	p.reads.Add(1)
	if at < before {
		p.stale.Add(1)
	}
}

// commit is acknowledged by some node but the one given, which then leads.
func (p *pauses) commit(t *testing.T, but *process) (leader *process) {
	t.Helper()
	p.keys++
	eventually(t, func() bool {
		for _, n := range p.nodes {
			if n == but {
				continue
			}
			if at, err := n.ask(fmt.Sprintf("commit k%d", p.keys), time.Second); err == nil {
				p.acked.Store(max(p.acked.Load(), at))
				leader = n
				return true
			}
		}
		return false
	}, "commit %d", p.keys)
	return leader
}

// A leader that is stopped, replaced, and continued must not answer reads from
// the state that it still has. With VerifyLeader it sometimes does: an answer to a
// heartbeat from before the stop confirms it.
func TestReadsAfterPauses(t *testing.T) {
	p := &pauses{nodes: startProcesses(t)}
	eventually(t, func() bool {
		for _, n := range p.nodes {
			if _, err := n.ask("create", time.Second); err == nil {
				return true
			}
		}
		return false
	}, "a topic")
	leader := p.commit(t, nil)
	p.target.Store(leader)
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 16 {
		readers.Go(func() {
			for ctx.Err() == nil {
				p.read()
			}
		})
	}
	for range *pauseRounds {
		leader = p.round(t, leader)
	}
	cancel()
	readers.Wait()
	t.Logf("%d pauses: %d of %d reads were stale", *pauseRounds, p.stale.Load(), p.reads.Load())
	require.Greater(t, p.reads.Load(), int64(10**pauseRounds), "the least that a busy machine manages")
	if !*pauseVerify {
		require.Zero(t, p.stale.Load())
	}
}

// round stops the leader until another has acknowledged a write, sends it more
// reads, and continues it. It returns the next leader.
func (p *pauses) round(t *testing.T, leader *process) *process {
	t.Helper()
	require.NoError(t, leader.cmd.Process.Signal(syscall.SIGSTOP))
	next := p.commit(t, leader)
	var late sync.WaitGroup
	for range 16 {
		late.Go(p.read) // begins after that write was acknowledged
	}
	require.NoError(t, leader.cmd.Process.Signal(syscall.SIGCONT))
	late.Wait()
	p.target.Store(next)
	return p.commit(t, nil)
}
