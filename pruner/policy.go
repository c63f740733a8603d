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

// policyOf reads a topic's config. Without cleanup.policy it is delete, as in Kafka.
// A limit that is missing is none: the default is the brokers' to know, and what they
// do not say deletes nothing.
func policyOf(config map[string]string) policy {
	if cleanup, ok := config["cleanup.policy"]; ok && !slices.Contains(strings.Split(cleanup, ","), "delete") {
		return policy{-1, -1}
	}
	return policy{bytes: limitOf(config, "retention.bytes"), ms: limitOf(config, "retention.ms")}
}

// limitOf reads one limit. One that makes no sense is none either.
func limitOf(config map[string]string, key string) int64 {
	limit, err := strconv.ParseInt(config[key], 10, 64)
	if err != nil {
		return -1
	}
	return limit
}
