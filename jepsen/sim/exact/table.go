package exact

import "github.com/cpnode/cpnode/internal/overlay"

// Release is the release of Go that the table was made for and tried with.
const Release = "go1.26.8"

// table is what is changed in the runtime, in files below GOROOT/src/runtime. A bubble
// is what testing/synctest runs on simulated time.
var table = []overlay.Change{
	{ // what the process is born with: keys of hashes, seeds of threads
		File: "rand.go", Old: "globalRand.state.Init(*seed)", New: "globalRand.state.Init([32]byte{})",
	},
	{ // within a bubble, one stream: order of maps, math/rand/v2, and the two below
		File: "rand.go", Old: "	mp := getg().m\n	c := &mp.chacha8\n",
		New: `	if getg().bubble != nil {
		return bubbleRand()
	}
	mp := getg().m
	c := &mp.chacha8
`,
	},
	{ // SplitMix64; one thread at a time runs goroutines
		File: "rand.go", Old: "// mrandinit initializes the random state of an m.\n",
		New: `var bubbleRandState uint64

//go:nosplit
func bubbleRand() uint64 {
	bubbleRandState += 0x9e3779b97f4a7c15
	z := bubbleRandState
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// mrandinit initializes the random state of an m.
`,
	},
	{ // which of the ready cases a select takes; threads draw from cheaprand for other ends, too
		File: "select.go", Old: "j := cheaprandn(uint32(norder + 1))", New: "j := randn(uint32(norder + 1))",
	},
	{ // which of the timers of one moment comes first
		File: "time.go", Old: "t.rand = cheaprand()", New: "t.rand = rand32()",
	},
	{ // how long a mutex was waited for: real time, after a millisecond of which it is handed over in another way
		File: "sema.go", Old: "func internal_sync_nanotime() int64 {\n	return nanotime()", New: "func internal_sync_nanotime() int64 {\n	return 1",
	},
	{ // no thread that takes the processor from a goroutine in a system call, interrupts long ones and polls files;
		// with it goes the precedence of a goroutine that was just woken, which could keep all others from running
		File: "proc.go", Old: "const haveSysmon = GOARCH != \"wasm\"", New: "const haveSysmon = false",
	},
	{ // no goroutine has a thread of its own: one thread runs all
		File: "proc.go", Old: "func dolockOSThread() {\n	if GOARCH == \"wasm\" {", New: "func dolockOSThread() {\n	if true {",
	},
}
