package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Damage can make bbolt panic in goroutines of its own, exhaust the stack or
// loop, none of which a caller survives. What reads a file that may be damaged
// is therefore a task that runs in a child process: the same executable, started
// with childArg as its first argument.
const childArg = "cpnode-child-task"

var (
	// ErrNoChild: this executable does not call ChildMain, so started again it
	// would not be a child but a second instance of itself.
	ErrNoChild = errors.New("no child process: main does not call store.ChildMain, and no other command is set")
	// ErrChildDied: the child crashed, was killed or took too long.
	ErrChildDied = errors.New("child process died")
)

// ChildTask is work for a child process. Its result is encoded as JSON; its
// error reaches the parent as text.
type ChildTask func(args []string) (result any, err error)

var (
	childTasks  = map[string]ChildTask{"check": checkTask}
	childCalled atomic.Bool // ChildMain was called: this executable can be a child
)

// RegisterChildTask adds a task under a name; a name given twice panics. It must
// be called before ChildMain, as from an init function.
func RegisterChildTask(name string, task ChildTask) {
	if childTasks[name] != nil {
		panic("store: child task registered twice: " + name)
	}
	childTasks[name] = task
}

// childAnswer is what a child prints.
type childAnswer struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// maxChildStack bounds what an endless recursion takes before it ends the child.
const maxChildStack = 64 << 20

// ChildMain does the work of a child process and exits, when this process was
// started as one; otherwise it returns at once. main calls it first of all.
func ChildMain() {
	if len(os.Args) < 3 || os.Args[1] != childArg {
		childCalled.Store(true)
		return
	}
	debug.SetMaxStack(maxChildStack)
	var answer childAnswer
	task, ok := childTasks[os.Args[2]]
	if !ok {
		task = func([]string) (any, error) { return nil, fmt.Errorf("unknown child task %q", os.Args[2]) }
	}
	result, err := task(os.Args[3:])
	if err == nil {
		answer.Result, err = json.Marshal(result)
	}
	if err != nil {
		answer.Error = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// Child starts child processes. The zero value starts this executable; Command
// names another one whose main calls ChildMain.
type Child struct {
	Command string
}

// Run runs a registered task and returns its result as JSON. An error of the
// task itself is returned as text; ErrChildDied says that the child did not
// finish, in time or at all, and what it said.
func (c Child) Run(ctx context.Context, limit time.Duration, task string, args ...string) (json.RawMessage, error) {
	command := c.Command
	if command == "" {
		if !childCalled.Load() {
			return nil, ErrNoChild
		}
		var err error
		if command, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var stdout bytes.Buffer
	var stderr headBuffer
	cmd := exec.CommandContext(limited, command, append([]string{childArg, task}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil:
		return nil, fmt.Errorf("%w: not done after %s", ErrChildDied, limit)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w: %s", ErrChildDied, err, stderr.b)
	}
	var answer childAnswer
	if err := json.Unmarshal(stdout.Bytes(), &answer); err != nil {
		return nil, fmt.Errorf("%w: its answer does not decode: %w", ErrChildDied, err)
	}
	if answer.Error != "" {
		return nil, errors.New(answer.Error)
	}
	return answer.Result, nil
}

// headBuffer keeps the beginning of what is written to it: a crash names its
// reason first.
type headBuffer struct{ b []byte }

const maxHead = 1 << 10

func (h *headBuffer) Write(p []byte) (int, error) {
	h.b = append(h.b, p[:min(len(p), maxHead-len(h.b))]...)
	return len(p), nil
}

// Time that a check may take: to start, and to read the file from a slow disk.
const (
	checkTimeBase     = 30 * time.Second
	checkBytesPerTime = 2 << 20 // a second
)

// Check is Check in a child process. A child that dies is a file that is
// damaged: the report says so.
func (c Child) Check(ctx context.Context, path string) (Report, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Report{}, err
	}
	limit := checkTimeBase + time.Duration(info.Size()/checkBytesPerTime)*time.Second
	result, err := c.Run(ctx, limit, "check", path)
	if errors.Is(err, ErrChildDied) {
		return Report{Problems: []string{err.Error()}}, nil
	}
	if err != nil {
		return Report{}, err
	}
	var r Report
	return r, json.Unmarshal(result, &r)
}

// CheckInChild is Check in a child process of this executable.
func CheckInChild(ctx context.Context, path string) (Report, error) { return Child{}.Check(ctx, path) }

func checkTask(args []string) (any, error) {
	if len(args) != 1 {
		return nil, errors.New("check takes one path")
	}
	return Check(args[0])
}
