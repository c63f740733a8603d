package pruner

import (
	"fmt"
	"time"

	"github.com/cpnode/cpnode/ops"
)

// Config says how often the workers run and how much they take at a time. Start
// from DefaultConfig. The keys of cpnode's configuration are named beside.
type Config struct {
	// ConsolidationInterval is the cycle of the consolidation pruner, and how long
	// one run goes on with partitions that have more to prune
	// (consolidation.cleanup.interval.ms).
	ConsolidationInterval time.Duration
	// ConsolidationMaxBatches caps the batches of one partition in one request; 0 = all
	// (consolidation.cleanup.max.batches.per.request).
	ConsolidationMaxBatches int64

	// RetentionInterval is how long after one enforcement of a partition the next
	// comes, on average: each time it is drawn from 0 to twice as long
	// (retention.enforcement.interval.ms).
	RetentionInterval time.Duration
	// RetentionMaxBatches caps the batches of one partition in one request; 0 = all
	// (retention.enforcement.max.batches.per.request).
	RetentionMaxBatches int64

	// ExpireInterval is the cycle of the expirers of fences and replays,
	// ExpireProducersInterval that of producers, which looks at all of them.
	ExpireInterval          time.Duration
	ExpireProducersInterval time.Duration
	// ProducerExpiration is how long a producer may be idle; 0 = for ever
	// (producer.id.expiration.ms).
	ProducerExpiration time.Duration
	// ExpireMaxRows caps the rows of one request.
	ExpireMaxRows int64

	// ReportInterval is how long the cross-tier reporter gathers reports
	// (cross.tier.log.start.report.interval.ms).
	ReportInterval time.Duration

	// PartitionsPerRequest bounds a request, so that it is answered in time also when
	// each of its partitions has as much to remove as the cap allows; ReportsPerRequest
	// one of the cross-tier reporter, each of whose partitions moves one row at most.
	PartitionsPerRequest, ReportsPerRequest int
	// TopicsPerPage bounds an answer that lists topics.
	TopicsPerPage int
	// MaxPartitions bounds what RemoteOffsets and the cross-tier reporter remember.
	MaxPartitions int
}

// DefaultConfig has the intervals and caps of docs/configuration.md.
func DefaultConfig() Config {
	return Config{
		ConsolidationInterval: time.Minute, ConsolidationMaxBatches: 2000,
		RetentionInterval: time.Minute, RetentionMaxBatches: 2000,
		ExpireInterval: time.Minute, ExpireProducersInterval: 10 * time.Minute,
		ProducerExpiration: 24 * time.Hour, ExpireMaxRows: 2000,
		ReportInterval:       time.Second,
		PartitionsPerRequest: 100, ReportsPerRequest: 1000, TopicsPerPage: 1000, MaxPartitions: 1_000_000,
	}
}

// Within is the config with requests that a control plane with these limits takes.
func (c Config) Within(l ops.Limits) Config {
	c.PartitionsPerRequest, c.ReportsPerRequest = min(c.PartitionsPerRequest, l.Items), min(c.ReportsPerRequest, l.Items)
	c.TopicsPerPage = min(c.TopicsPerPage, l.ListedMaximum)
	return c
}

// Validate names the first field that is wrong.
func (c *Config) Validate() error {
	for _, f := range []struct {
		name     string
		interval time.Duration
	}{
		{"ConsolidationInterval", c.ConsolidationInterval}, {"RetentionInterval", c.RetentionInterval},
		{"ExpireInterval", c.ExpireInterval}, {"ExpireProducersInterval", c.ExpireProducersInterval}, {"ReportInterval", c.ReportInterval},
	} {
		if f.interval < time.Millisecond {
			return fmt.Errorf("%s: %v must be at least 1ms", f.name, f.interval)
		}
	}
	for _, f := range []struct {
		name         string
		value, least int64
	}{
		{"ConsolidationMaxBatches", c.ConsolidationMaxBatches, 0}, {"RetentionMaxBatches", c.RetentionMaxBatches, 0},
		{"ProducerExpiration", int64(c.ProducerExpiration), 0}, {"ExpireMaxRows", c.ExpireMaxRows, 1},
		{"PartitionsPerRequest", int64(c.PartitionsPerRequest), 1}, {"ReportsPerRequest", int64(c.ReportsPerRequest), 1},
		{"TopicsPerPage", int64(c.TopicsPerPage), 1}, {"MaxPartitions", int64(c.MaxPartitions), 1},
	} {
		if f.value < f.least {
			return fmt.Errorf("%s: %d must be at least %d", f.name, f.value, f.least)
		}
	}
	return nil
}
