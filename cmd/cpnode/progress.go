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
