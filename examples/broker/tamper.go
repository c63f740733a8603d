package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/switch/segmentlog"
)

// tamper overwrites, on the disk of a broker, the payload of every batch below the seal,
// with checksums that fit: whoever reads one of them gets a record that nobody has sent. It
// returns the number of segments. The broker may be deleting them meanwhile.
func (c *cluster) tamper(broker int32, ref ops.LogRef, seal int64) (segments int, err error) {
	names, err := filepath.Glob(filepath.Join(logDir(logsDir(c.dir, broker), ref), "*.log"))
	for _, name := range names {
		var changed bool
		if changed, err = tamperSegment(name, seal); err != nil {
			break
		}
		if changed {
			segments++
		}
	}
	return segments, err
}

func tamperSegment(name string, seal int64) (changed bool, err error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // deleted meanwhile
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	content, err := io.ReadAll(f)
	if err != nil {
		return false, err
	}
	reader := segmentlog.NewReader(name, bytes.NewReader(content), 0)
	for {
		position := reader.Position()
		b, err := reader.Next()
		if errors.Is(err, io.EOF) || err == nil && b.BaseOffset >= seal {
			return changed, nil
		}
		if err != nil {
			return changed, err
		}
		b.Payload = bytes.ReplaceAll(b.Payload, []byte("record "), []byte("TAMPER "))
		if _, err := f.WriteAt(segmentlog.AppendFrame(nil, b), position); err != nil {
			return changed, err
		}
		changed = true
	}
}
