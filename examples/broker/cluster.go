package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
)

// cluster is three brokers, each a child process of this one.
type cluster struct {
	dir      string
	layout   layout
	client   *api.Client
	timeline io.Writer
	began    time.Time

	mu        sync.Mutex
	processes map[int32]*process // the last one of each broker
}

// process is one run of a broker.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer // its end is the child's, whatever becomes of this process
	done  chan struct{}
	err   error // once it is done
}

// serveVerb is the first argument of a child.
const serveVerb = "serve-broker"

// newCluster starts the brokers of a new cluster in dir.
func newCluster(dir string, l layout, timeline io.Writer) (*cluster, error) {
	for _, d := range []string{objectsDir(dir), remoteDir(dir), pointsDir(dir)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	if err := l.write(dir); err != nil {
		return nil, err
	}
	c := &cluster{dir: dir, layout: l, processes: map[int32]*process{}, timeline: timeline, began: time.Now()}
	var endpoints []string
	for _, a := range l.Brokers {
		endpoints = append(endpoints, "http://"+a.HTTP)
	}
	var err error
	if c.client, err = api.NewClient(api.DefaultClientConfig(endpoints...)); err != nil {
		return nil, err
	}
	for _, a := range l.Brokers {
		if err := c.start(a.ID); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

// say writes a line of the timeline.
func (c *cluster) say(format string, args ...any) {
	fmt.Fprintf(c.timeline, "%6.2fs  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

func (c *cluster) outputFile(broker int32) string {
	return filepath.Join(brokerDir(c.dir, broker), "output")
}

// start runs a broker, which must not run.
func (c *cluster) start(broker int32) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(brokerDir(c.dir, broker), 0o700); err != nil {
		return err
	}
	output, err := os.OpenFile(c.outputFile(broker), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }() // the child has its own
	p := &process{cmd: exec.Command(program, serveVerb, c.dir, strconv.Itoa(int(broker))), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = output, output
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	c.mu.Lock()
	c.processes[broker] = p
	c.mu.Unlock()
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return nil
}

func (c *cluster) process(broker int32) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.processes[broker]
}

// all are the last processes of all brokers.
func (c *cluster) all() map[int32]*process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.processes)
}

func (p *process) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// killed says whether the process is over because of a kill -9.
func (p *process) killed() bool {
	if !p.over() {
		return false
	}
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// kill is kill -9.
func (c *cluster) kill(broker int32) error {
	p := c.process(broker)
	err := p.cmd.Process.Kill()
	<-p.done
	return err
}

// stop ends a broker in order.
func (c *cluster) stop(broker int32) error {
	p := c.process(broker)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	<-p.done
	return p.err
}

// close ends all brokers, without much ado.
func (c *cluster) close() error {
	c.client.Close()
	for _, p := range c.all() {
		if !p.over() {
			_ = p.cmd.Process.Kill() // it may be over by now
		}
		<-p.done
	}
	return nil
}

// live are the brokers that run.
func (c *cluster) live() (ids []int32) {
	for _, a := range c.layout.Brokers {
		if !c.process(a.ID).over() {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// failed is the error of a broker that ended by itself.
func (c *cluster) failed() error {
	for id, p := range c.all() {
		if p.over() && !p.killed() && p.err != nil {
			return fmt.Errorf("broker %d ended: %w; see %s", id, p.err, c.outputFile(id))
		}
	}
	return nil
}

// until waits for a condition, described by what. Its errors are what it waits for to go
// away, unless a broker has ended by itself.
func (c *cluster) until(ctx context.Context, what string, holds func() (bool, error)) error {
	for {
		ok, err := holds()
		if ok && err == nil {
			return nil
		}
		if failed := c.failed(); failed != nil {
			return failed
		}
		if pause(ctx, retryPause) != nil {
			cause := context.Cause(ctx)
			if errors.Is(err, cause) {
				err = nil // it says nothing more
			}
			return fmt.Errorf("waiting until %s: %w", what, errors.Join(cause, err))
		}
	}
}

// status asks a broker about a partition.
func (c *cluster) status(ctx context.Context, broker int32, ref ops.LogRef) (statusAnswer, error) {
	a, err := c.layout.address(broker)
	if err != nil {
		return statusAnswer{}, err
	}
	return call[statusAnswer](ctx, a.HTTP, verbStatus, statusRequest{ref})
}

// describe asks the control plane about a partition.
func (c *cluster) describe(ctx context.Context, ref ops.LogRef) (ops.DescribedPartition, error) {
	answer, err := c.client.DescribePartitions(ctx, &ops.DescribePartitionsRequest{Requests: []ops.LogRef{ref}})
	if err != nil {
		return ops.DescribedPartition{}, err
	}
	return answer.Responses[0], nil
}

// hold has a broker stop at a point until releaseAll.
func (c *cluster) hold(point string, broker int32) error {
	return os.WriteFile(points{dir: pointsDir(c.dir)}.holdFile(point, broker), nil, 0o600)
}

func (c *cluster) holdAll(point string) (err error) {
	for _, a := range c.layout.Brokers {
		err = errors.Join(err, c.hold(point, a.ID))
	}
	return err
}

// releaseAll lets all brokers that are held at a point go on.
func (c *cluster) releaseAll(point string) (err error) {
	for _, a := range c.layout.Brokers {
		err = errors.Join(err, os.RemoveAll(points{dir: pointsDir(c.dir)}.holdFile(point, a.ID)))
	}
	return err
}
