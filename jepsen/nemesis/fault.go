package nemesis

import (
	"encoding/json"
	"os"
)

// Fault is one thing that was done to the cluster, and how long it took until all
// nodes were ready again. Times are on the history's clock, in nanoseconds.
type Fault struct {
	Kind  string   `json:"kind"`
	Nodes []string `json:"nodes"`
	Begin int64    `json:"begin_ns"`
	End   int64    `json:"end_ns"`   // killed nodes were started, paused ones went on, cuts were healed
	Ready int64    `json:"ready_ns"` // all nodes said that they are ready
	Note  string   `json:"note,omitempty"`
}

// Append adds a fault to a file, one JSON line each.
func Append(path string, f Fault) error {
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := file.Write(append(line, '\n')); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

// Read reads such a file.
func Read(path string) (faults []Fault, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	for d := json.NewDecoder(file); d.More(); {
		var f Fault
		if err := d.Decode(&f); err != nil {
			return nil, err
		}
		faults = append(faults, f)
	}
	return faults, nil
}
