package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cpnode/cpnode/ops"
	switchover "github.com/cpnode/cpnode/switch"
)

// readWhole consumes a partition on one broker from offset 0 to end, and says how many
// records came of which tier. Each record must be there once, in its place, as it was sent.
func (c *cluster) readWhole(ctx context.Context, broker int32, ref ops.LogRef, end int64) (string, error) {
	tiers := map[switchover.Tier]int{}
	for offset := int64(0); offset < end; {
		answer, err := c.consume(ctx, broker, ref, offset)
		if err != nil {
			return "", err
		}
		for i, record := range answer.Records {
			if want := value(offset + int64(i)); record != want {
				return "", fmt.Errorf("broker %d, offset %d: %q from %s storage, not %q", broker, offset+int64(i), record, answer.Tier, want)
			}
		}
		offset += int64(len(answer.Records))
		tiers[answer.Tier] += len(answer.Records)
	}
	var parts []string
	for tier, n := range tiers {
		parts = append(parts, fmt.Sprintf("%d %s", n, tier))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", "), nil
}

// consume reads some records, and tries until there are any.
func (c *cluster) consume(ctx context.Context, broker int32, ref ops.LogRef, offset int64) (answer consumeAnswer, err error) {
	a, err := c.layout.address(broker)
	if err != nil {
		return answer, err
	}
	for {
		answer, err = call[consumeAnswer](ctx, a.HTTP, verbConsume, consumeRequest{ref, offset})
		if err == nil && len(answer.Records) > 0 || err != nil && !errors.Is(err, errAgain) {
			return answer, err
		}
		if failed := c.failed(); failed != nil {
			return answer, failed
		}
		if pause(ctx, retryPause) != nil {
			return answer, fmt.Errorf("broker %d, offset %d: no record: %w", broker, offset, errors.Join(context.Cause(ctx), err))
		}
	}
}

// readWholeEverywhere consumes on each broker that runs.
func (c *cluster) readWholeEverywhere(ctx context.Context, ref ops.LogRef, end int64) error {
	for _, id := range c.live() {
		tiers, err := c.readWhole(ctx, id, ref, end)
		if err != nil {
			return err
		}
		c.say("broker %d: offsets 0 to %d read: %s", id, end-1, tiers)
	}
	return nil
}
