package segmentlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"

	switchover "github.com/cpnode/cpnode/switch"
)

// checkpoint is what the segments alone do not say. It is a file of two lines: this as
// JSON, and the CRC-32C of the first line in hex.
type checkpoint struct {
	Version       int   `json:"version"`
	LogStart      int64 `json:"log_start"`
	LocalLogStart int64 `json:"local_log_start"`
	// Flushed: all records below are on disk for good. Damage below is an error, damage above
	// is the torn end of a log whose machine or process died.
	Flushed       int64 `json:"flushed"`
	HighWatermark int64 `json:"high_watermark"`
	// Epochs are pairs of an epoch and its start, those of deleted segments too.
	Epochs [][2]int64 `json:"epochs"`
}

const (
	checkpointName    = "checkpoint"
	checkpointBeside  = "checkpoint.tmp"
	checkpointVersion = 1
)

func encodeCheckpoint(c checkpoint) ([]byte, error) {
	line, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s\n%08x\n", line, crc32.Checksum(line, castagnoli)), nil
}

// decodeCheckpoint is the checkpoint in b, or why there is none.
func decodeCheckpoint(b []byte) (c checkpoint, why string) {
	line, crc, _ := bytes.Cut(b, []byte{'\n'})
	if fmt.Sprintf("%08x\n", crc32.Checksum(line, castagnoli)) != string(crc) {
		return c, "checksum differs"
	}
	if err := json.Unmarshal(line, &c); err != nil {
		return c, err.Error()
	}
	if c.Version != checkpointVersion {
		return c, fmt.Sprintf("version %d is not known", c.Version)
	}
	return c, ""
}

// readCheckpoint is the checkpoint of a directory, nil if it has none.
func (l *Log) readCheckpoint() (*checkpoint, error) {
	b, err := l.root.ReadFile(checkpointName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, storage("read", l.path(checkpointName), err)
	}
	c, why := decodeCheckpoint(b)
	if why != "" {
		return nil, corrupt(l.path(checkpointName), 0, why)
	}
	return &c, nil
}

// save puts the offsets as they are now on disk, if they differ from what is there. The
// file is replaced as a whole. Log.write is held.
func (l *Log) save() error {
	b, err := encodeCheckpoint(l.checkpoint())
	if err != nil || bytes.Equal(b, l.saved) {
		return err
	}
	if err := l.replaceCheckpoint(b); err != nil {
		return storage("write", l.path(checkpointName), err)
	}
	l.saved = b
	return nil
}

func (l *Log) replaceCheckpoint(b []byte) error {
	f, err := l.root.OpenFile(checkpointBeside, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := l.root.Rename(checkpointBeside, checkpointName); err != nil {
		return err
	}
	return l.dir.Sync()
}

// checkpoint is what is to be saved now.
func (l *Log) checkpoint() checkpoint {
	l.state.RLock()
	defer l.state.RUnlock()
	c := checkpoint{
		Version: checkpointVersion, LogStart: l.logStart, LocalLogStart: l.localStart,
		Flushed: l.flushed, HighWatermark: l.highWatermark, Epochs: [][2]int64{},
	}
	for _, e := range l.epochs {
		c.Epochs = append(c.Epochs, [2]int64{int64(e.Epoch), e.Start})
	}
	return c
}

// restore takes the offsets over from a checkpoint.
func (l *Log) restore(c checkpoint) {
	l.logStart, l.localStart, l.flushed, l.highWatermark = c.LogStart, c.LocalLogStart, c.Flushed, c.HighWatermark
	for _, e := range c.Epochs {
		l.epochs = append(l.epochs, switchover.EpochStart{Epoch: int32(e[0]), Start: e[1]})
	}
}
