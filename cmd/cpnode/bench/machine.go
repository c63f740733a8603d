package bench

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine says where and on what a run was made. What cannot be found out is "unknown".
type Machine struct {
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	Memory     string `json:"memory"`
	Kernel     string `json:"kernel"`
	FileSystem string `json:"file_system"` // of the directory that was measured in
	Go         string `json:"go"`
	Commit     string `json:"commit"`
	Settings   string `json:"settings"`
}

const unknown = "unknown"

func thisMachine(dir, settings string) Machine {
	return Machine{
		CPU: fieldOf("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(), Memory: memory(),
		Kernel: kernel(), FileSystem: fileSystem(dir), Go: runtime.Version(), Commit: commit(), Settings: settings,
	}
}

// fieldOf is the value of the first "name: value" line of a file.
func fieldOf(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return unknown
	}
	defer f.Close() //nolint:errcheck // only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return unknown
}

func memory() string {
	bytes, ok := bytesOf("/proc/meminfo", "MemTotal")
	if !ok {
		return unknown
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}

// bytesOf is the value of the first "name: n kB" line of a file, in bytes.
func bytesOf(path, name string) (bytes int64, ok bool) {
	kb, _, _ := strings.Cut(fieldOf(path, name), " ")
	n, err := strconv.ParseInt(kb, 10, 64)
	return n << 10, err == nil
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return runtime.GOOS
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
}

// fileSystem is the type of the mount that holds dir: the one with the longest path.
func fileSystem(dir string) string {
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return unknown
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return unknown
	}
	kind, longest := unknown, -1
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 3 || len(f[1]) < longest {
			continue
		}
		if rel, err := filepath.Rel(f[1], dir); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			kind, longest = f[2], len(f[1])
		}
	}
	return kind
}

func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	revision, dirty := unknown, ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = " with changes"
		}
	}
	return revision + dirty
}

// anonymousBytes is the memory of this process that is not page cache; ok is
// false where the system does not tell.
func anonymousBytes() (bytes int64, ok bool) {
	return bytesOf("/proc/self/smaps_rollup", "Anonymous")
}
