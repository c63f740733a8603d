package ops

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cpnode/cpnode/store"
)

// Request is what a client asks. Its fields carry the wire names, defaults and
// bounds in their tags, which the wire codec enforces.
type Request interface {
	// Validate checks what tags cannot say; its errors are *Error.
	Validate(Limits) error
}

// Query is a request that only reads.
type Query interface {
	Request
	// Query answers from one state; errors are *Error, or mean a damaged state.
	Query(*store.ReadTx, Limits) (any, error)
}

// Write is a request that may change the state.
type Write interface {
	Request
	// Begin starts the operation. Settings are copied into its commands.
	Begin(Settings) Steps
}

// Steps carries one write from its request to its answer, by one log entry or by
// several bounded ones.
type Steps interface {
	// Next is the next command to log, or nil when nothing that is left would
	// change the state, which makes the answer complete. nowMs is the larger of
	// the proposer's clock and the state's. An *Error answers the request.
	Next(tx *store.ReadTx, nowMs int64) (Command, error)
	// Took takes the result of the command that Next returned and says whether
	// the answer is complete.
	Took(result any) (done bool)
	// Answer is the response, once it is complete.
	Answer() any
}

// sequel is implemented by Steps whose next command can follow from the last result
// alone. A look at the state first would make all that was answered visible, which
// ends the state's open transaction: once for each part of a long drain.
type sequel interface {
	// Again is the next command, or nil when Next must look for it. It is asked after
	// a Took that answered false.
	Again() Command
}

// Reader calls fn with the present state.
type Reader func(fn func(*store.ReadTx) error) error

// Command is what one log entry does.
type Command interface {
	// Op is the operation's name.
	Op() string
	// Apply carries the command out at the given time and returns its result:
	// what Steps.Took takes, or an *Error when the command is refused and
	// nothing was changed. Any error stops the node.
	Apply(tx *store.WriteTx, nowMs int64) (any, error)
	// fields names the command's fields in the order of the log.
	fields(*codec)
}

// Operation is one line of the registry. What only nodes propose has no request
// and no response on the wire.
type Operation struct {
	Name        string
	Summary     string
	NewRequest  func() Request
	NewResponse func() any
	// NewCommand is nil for reads.
	NewCommand func() Command
	// FeatureLevel is the lowest level of the state at which it may be logged.
	FeatureLevel uint64
	// RunsWhenFull says that a node short of space still logs the operation: it frees
	// space, rewrites rows as large as before without which nobody could be served, or
	// is the cluster's own.
	RunsWhenFull bool
	// Background says that nobody waits for the operation: its entries leave time to
	// others.
	Background bool
	// SealsLogs says that an entry may have Limits.SealEntryBytes.
	SealsLogs bool
}

// EntryBytes is how large an entry of the operation may be.
func (o *Operation) EntryBytes(lim Limits) int {
	if o.SealsLogs {
		return lim.SealEntryBytes
	}
	return lim.EntryBytes
}

// IsWrite says whether the operation may change the state.
func (o *Operation) IsWrite() bool { return o.NewCommand != nil }

// IsInternal says that only nodes propose the operation.
func (o *Operation) IsInternal() bool { return o.NewRequest == nil }

var registry = map[string]*Operation{}

func register(op Operation) *Operation {
	if _, dup := registry[op.Name]; dup {
		panic(fmt.Sprintf("operation %s is registered twice", op.Name))
	}
	if op.FeatureLevel == 0 {
		op.FeatureLevel = 1
	}
	registry[op.Name] = &op
	return &op
}

// Lookup is the operation of that name, also of an internal one.
func Lookup(name string) (*Operation, bool) {
	op, ok := registry[name]
	return op, ok
}

// All is every operation that a client may ask for, by name.
func All() []*Operation {
	all := make([]*Operation, 0, len(registry))
	for _, name := range slices.Sorted(maps.Keys(registry)) {
		if op := registry[name]; !op.IsInternal() {
			all = append(all, op)
		}
	}
	return all
}
