package raftnode

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// slogSink passes raft's lines on to slog.
type slogSink struct{ logger *slog.Logger }

func raftLogger(logger *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Off})
	l.RegisterSink(slogSink{logger.With("part", "raft")})
	return l
}

var slogLevels = map[hclog.Level]slog.Level{
	hclog.Trace: slog.LevelDebug, hclog.Debug: slog.LevelDebug, hclog.Info: slog.LevelInfo,
	hclog.Warn: slog.LevelWarn, hclog.Error: slog.LevelError,
}

// Accept implements hclog.SinkAdapter.
func (s slogSink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	ctx, to := context.Background(), slogLevels[level]
	if !s.logger.Enabled(ctx, to) {
		return
	}
	for i := 1; i < len(args); i += 2 {
		args[i] = plain(args[i])
	}
	s.logger.Log(ctx, to, msg, args...)
}

// plain makes text of what would print as a struct: raft logs its node, peers and
// lazily formatted values.
func plain(v any) any {
	switch v := v.(type) {
	case hclog.Format:
		if len(v) > 0 {
			if format, ok := v[0].(string); ok {
				return fmt.Sprintf(format, v[1:]...)
			}
		}
		return fmt.Sprint([]any(v)...)
	case error:
		return v.Error()
	case fmt.Stringer:
		return v.String()
	case string, bool, int, int64, uint64, float64:
		return v
	default:
		return fmt.Sprintf("%+v", v)
	}
}
