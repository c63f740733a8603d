package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

func switchWatchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "watch",
		Short: "Follow what becomes of topics, brokers and partitions",
		Long: `Prints a line for each topic, broker and partition that changes, until Ctrl-C. With
-o json each event is a line, as the API sends it.`,
		Example: "  cpnode switch watch\n  cpnode switch watch --from-index 0 -o json",
		Args:    exactly(0),
	}
	f := addClientFlags(c)
	from := c.Flags().Uint64("from-index", 0, "also what changed after this log entry; default: from now on")
	limit := c.Flags().Int("events", 0, "end after so many events; 0 = go on")
	c.RunE = f.with(func(cmd *cobra.Command, client *api.Client, _ []string) error {
		if *limit < 0 {
			return usagef("--events: must be >= 0")
		}
		w, err := newWatch(cmd, client, *f.output)
		if err != nil {
			return err
		}
		if !cmd.Flags().Changed("from-index") {
			*from = w.index
		}
		return w.follow(cmd.Context(), client, *from, *limit)
	})
	return c
}

// watch prints events.
type watch struct {
	out    io.Writer
	format outputFormat
	index  uint64                   // of the state when it began
	names  map[store.TopicID]string // of topics
}

func newWatch(cmd *cobra.Command, client *api.Client, format outputFormat) (*watch, error) {
	w := &watch{out: cmd.OutOrStdout(), format: format, names: map[store.TopicID]string{}}
	var info api.Info
	if _, err := client.ListTopics(cmd.Context(), &ops.ListTopicsRequest{Limit: 1}, api.Observe(&info)); err != nil {
		return nil, err
	}
	w.index = info.AppliedIndex
	topics, err := listTopics(cmd.Context(), client)
	if err != nil {
		return nil, err
	}
	for _, t := range topics.Topics {
		w.names[t.TopicID] = t.TopicName
	}
	return w, nil
}

func (w *watch) follow(ctx context.Context, client *api.Client, from uint64, limit int) error {
	seen := 0
	for event, err := range client.Watch(ctx, from) {
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err == nil {
			err = w.print(&event)
		}
		if err != nil {
			return err
		}
		if seen++; seen == limit {
			return nil
		}
	}
	return nil
}

func (w *watch) print(e *ops.WatchEvent) error {
	if w.format == outputJSON {
		line, err := wire.Append(wire.JSON, nil, e)
		if err == nil {
			_, err = fmt.Fprintf(w.out, "{\"event\":%q,%s\n", e.Kind, line[1:])
		}
		return err
	}
	p := printer{w: w.out}
	for _, line := range w.lines(e) {
		p.line(fmt.Sprintf("%-8d %s", e.Index, line))
	}
	return p.err
}

// lines are those of one event, for people.
func (w *watch) lines(e *ops.WatchEvent) (lines []string) {
	switch e.Kind {
	case ops.WatchReset:
		lines = append(lines, "changes up to here are not kept any more; what there is now:")
	case ops.WatchResetEnd:
		lines = append(lines, "that is all; what changes from here on:")
	}
	for _, id := range e.DeletedTopics {
		lines = append(lines, "topic "+w.name(id)+" deleted")
	}
	for _, t := range e.Topics {
		w.names[t.TopicID] = t.TopicName
		lines = append(lines, fmt.Sprintf("topic %s: %s, %d partitions", t.TopicName, t.Origin, t.Partitions))
	}
	for _, b := range e.Brokers {
		state := "live"
		if b.Fenced {
			state = "fenced"
		}
		lines = append(lines, fmt.Sprintf("broker %d: %s, epoch %d", b.BrokerID, state, b.BrokerEpoch))
	}
	for _, p := range e.Partitions {
		lines = append(lines, fmt.Sprintf("%s-%d: %s, seal %s, leader %s epoch %d, isr %s", w.name(p.TopicID), p.Partition, p.State,
			sealText(p.ClassicToDisklessStartOffset), brokerText(p.Leader), p.LeaderEpoch, brokersText(p.ISR)))
	}
	return lines
}

func (w *watch) name(id store.TopicID) string {
	if name, ok := w.names[id]; ok {
		return name
	}
	return id.String()
}
