package sim

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// inBubble runs fn on simulated time, which passes when all that fn has begun waits.
// What is still blocked when fn has returned stays where it is: see leftBehind.
func inBubble(t *testing.T, fn func()) {
	ended := false
	defer func() {
		if fault := recover(); fault != nil && !ended {
			panic(fault)
		}
	}()
	synctest.Test(t, func(*testing.T) {
		fn()
		ended = true
	})
}

// raftLeavesBehind is where goroutines may wait for ever: raft leaves some of its
// futures without an answer when it is shut down.
const raftLeavesBehind = "hashicorp/raft.(*deferError).Error"

// leftBehind are the stacks of the bubble's other goroutines, once they have had their
// time to end, except those that nothing can be done about.
func leftBehind() string {
	time.Sleep(time.Minute)
	synctest.Wait()
	buf := make([]byte, 64<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var left []string
	for i, stack := range strings.Split(string(buf), "\n\n") {
		head, _, _ := strings.Cut(stack, "\n")
		ours := i > 0 && strings.Contains(head, "synctest bubble") && !strings.Contains(head, "synctest.Run") && !strings.Contains(stack, "testing/synctest.testingSynctestTest")
		if ours && !strings.Contains(stack, raftLeavesBehind) {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}
