package pruner

import (
	"slices"
	"strconv"
	"strings"
)

// policy is how long a topic keeps its batches; negative values are no limit.
type policy struct{ bytes, ms int64 }

// off says whether a policy never removes anything.
func (p policy) off() bool { return p.bytes < 0 && p.ms < 0 }

const weekMs = 7 * 24 * 3600 * 1000

// policyOf reads a topic's config; where a key is missing Kafka's default holds.
func policyOf(config map[string]string) policy {
	if cleanup, ok := config["cleanup.policy"]; ok && !slices.Contains(strings.Split(cleanup, ","), "delete") {
		return policy{-1, -1}
	}
	return policy{bytes: limitOf(config, "retention.bytes", -1), ms: limitOf(config, "retention.ms", weekMs)}
}

// limitOf reads one limit. One that makes no sense is none: nothing is deleted
// because of a value that cannot be read.
func limitOf(config map[string]string, key string, missing int64) int64 {
	text, ok := config[key]
	if !ok {
		return missing
	}
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return limit
}
