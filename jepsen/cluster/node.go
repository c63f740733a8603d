package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cpnode/cpnode/internal/loopback"
)

// Node is one cpnode process, or the place of one that is down. What it is given is
// taken in at the next Start.
type Node struct {
	ID, Dir            string
	Log                string // file that the node's log is added to
	HTTPAddr, RaftAddr string
	Flags              []string          // further flags of serve
	Env                map[string]string // added to this process's environment

	binary  string
	process *os.Process // nil while it is down
	exited  chan struct{}
	err     error // how it ended, once exited is closed
}

// URL is where the node answers.
func (n *Node) URL() string { return "http://" + n.HTTPAddr }

// wholeDeletes keeps a delete of records in one entry: one that is split lets readers see
// the log starts between, and the checker takes it for one effect.
var wholeDeletes = []string{"--delete.records.max.batches.per.entry", "100000"}

// Start starts the node unless it runs; AwaitReady waits for it.
func (n *Node) Start() error {
	if n.process != nil {
		return nil
	}
	log, err := os.OpenFile(n.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the node has its own
	args := []string{"serve", "--node-id", n.ID, "--data-dir", n.Dir, "--http-addr", n.HTTPAddr, "--raft-addr", n.RaftAddr}
	cmd := exec.Command(n.binary, slices.Concat(args, wholeDeletes, n.Flags)...)
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, os.Environ()
	for name, value := range n.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.SysProcAttr = processAttributes()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start node %s: %w", n.ID, err)
	}
	exited := make(chan struct{})
	n.process, n.exited, n.err = cmd.Process, exited, nil
	go func() {
		n.err = cmd.Wait()
		close(exited)
	}()
	return nil
}

// AwaitReady waits until the node says that it is ready.
func (n *Node) AwaitReady(ctx context.Context) error {
	return Eventually(ctx, "node "+n.ID+" to be ready", func() (bool, error) {
		reason, err := n.NotReady(ctx)
		return err == nil && reason == "", err
	})
}

// NotReady is why the node is not ready, empty when it is. Its error is a node that
// has ended, or was not started.
func (n *Node) NotReady(ctx context.Context) (reason string, err error) {
	if n.process == nil {
		return "", n.down()
	}
	if err := n.endedByItself(); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URL()+"/readyz", nil)
	if err != nil {
		return "", err
	}
	request.Close = true
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		return "it does not answer: " + err.Error(), nil
	}
	defer r.Body.Close()
	if r.StatusCode == http.StatusOK {
		return "", nil
	}
	const limit = 4096
	body, err := io.ReadAll(io.LimitReader(r.Body, limit))
	if err != nil {
		return "its answer breaks off: " + err.Error(), nil
	}
	return strings.TrimSpace(string(body)), nil
}

// Move gives the node, which is down, other addresses.
func (n *Node) Move() (err error) {
	if n.HTTPAddr, err = loopback.FreeAddr(); err != nil {
		return err
	}
	n.RaftAddr, err = loopback.FreeAddr()
	return err
}

// endedByItself is the error of a node that was started, and has ended; nil of others.
func (n *Node) endedByItself() error {
	if n.process == nil {
		return nil
	}
	select {
	case <-n.exited:
		return n.ended()
	default:
		return nil
	}
}

// ended is the error of a node that ended by itself, with the end of its log.
func (n *Node) ended() error {
	const keep = 2000
	log, err := os.ReadFile(n.Log)
	if err != nil {
		return err
	}
	how := n.err
	if how == nil {
		how = errors.New("exit status 0")
	}
	return fmt.Errorf("node %s ended: %w\n%s", n.ID, how, log[max(0, len(log)-keep):])
}

// Kill ends the node with SIGKILL, and waits until it is gone.
func (n *Node) Kill() {
	if n.process == nil {
		return
	}
	_ = n.process.Kill() // it may be gone already
	<-n.exited
	n.process = nil
}

// Pause stops the process in its tracks. Its sockets stay open.
func (n *Node) Pause() error { return n.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on, as if no time had passed.
func (n *Node) Resume() error { return n.signal(syscall.SIGCONT) }

// Stop ends the node with SIGTERM, and waits until it has closed its files.
func (n *Node) Stop() error {
	if n.process == nil {
		return nil
	}
	if err := n.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-n.exited:
	case <-time.After(Patience):
		n.Kill()
		return fmt.Errorf("node %s did not stop in %s", n.ID, Patience)
	}
	n.process = nil
	if n.err != nil {
		return n.ended()
	}
	return nil
}

// Wipe removes all that the node, which is down, has kept.
func (n *Node) Wipe() error {
	if n.process != nil {
		return fmt.Errorf("node %s is running", n.ID)
	}
	return os.RemoveAll(n.Dir)
}

// Instance names the node's data directory, by which members tell a node from one that
// came back without its data. It is there as soon as the node listens.
func (n *Node) Instance() (string, error) {
	data, err := os.ReadFile(filepath.Join(n.Dir, "node.json"))
	if err != nil {
		return "", err
	}
	var identity struct {
		Instance string `json:"instance"`
	}
	err = json.Unmarshal(data, &identity)
	return identity.Instance, err
}

func (n *Node) down() error { return fmt.Errorf("node %s is down", n.ID) }

func (n *Node) signal(s syscall.Signal) error {
	if n.process == nil {
		return n.down()
	}
	if err := n.process.Signal(s); err != nil {
		if errors.Is(err, os.ErrProcessDone) {
			<-n.exited
			return n.ended()
		}
		return fmt.Errorf("node %s: %w", n.ID, err)
	}
	return nil
}
