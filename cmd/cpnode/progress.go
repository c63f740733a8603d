package main

import (
	"fmt"
	"io"
	"time"
)

// clearLine empties a terminal's line.
const clearLine = "\r\x1b[K"

// progressOn shows one line that changes: for how long something goes on, and what
// it is at. An empty step takes the line away. Nothing is shown but on a terminal.
func progressOn(w io.Writer) func(step string) {
	if !isTerminal(w) {
		return func(string) {}
	}
	began := time.Now()
	return func(step string) {
		if step == "" {
			fmt.Fprint(w, clearLine)
			return
		}
		fmt.Fprintf(w, "%s%s  %s", clearLine, time.Since(began).Truncate(time.Second), step)
	}
}

// progressText is how far something has come, how fast it goes and, where the total
// is known (not 0), how long it will still take.
func progressText(done, total int64, what string, spent time.Duration) string {
	rate := float64(done) / max(spent.Seconds(), 0.001)
	if total == 0 {
		return fmt.Sprintf("%d %s, %.0f/s", done, what, rate)
	}
	left := time.Duration(float64(total-done) / max(rate, 1) * float64(time.Second))
	return fmt.Sprintf("%d of %d %s, %.0f/s, %s left", done, total, what, rate, left.Truncate(time.Second))
}
