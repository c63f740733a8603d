package ops

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cpnode/cpnode/store"
)

const maxTopicName = 249

// legalName is Kafka's rule for topic names.
func legalName(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return name != "" && name != "." && name != ".." && len(name) <= maxTopicName && strings.Trim(name, letters) == ""
}

// checkNewTopic says whether a topic id that has no row may appear under a name.
func checkNewTopic(tx *store.ReadTx, id store.TopicID, name string) (Code, error) {
	if id.IsZero() || !legalName(name) {
		return InvalidRequest, nil
	}
	_, taken, err := tx.TopicByName(name)
	if taken {
		return TopicAlreadyExists, err
	}
	return None, err
}

// newTopic is the row of a topic that first appears.
func newTopic(name string, config map[string]string, nowMs int64) store.Topic {
	return store.Topic{Name: name, Origin: store.OriginDiskless, CreatedAt: nowMs, Config: config}
}

// Config keys that rules go by.
const (
	keyDisklessEnable      = "diskless.enable"
	keyRemoteStorageEnable = "remote.storage.enable"
	keyUncleanElection     = "unclean.leader.election.enable"
)

// configKeys are the keys of a topic's config, each with what its value must be.
var configKeys = map[string]struct {
	valid func(string) bool
	rule  string
}{
	"cleanup.policy":       {isCleanupPolicy, "must be delete, compact or both, separated by a comma"},
	"retention.ms":         {isRetention, "must be an integer >= -1"},
	"retention.bytes":      {isRetention, "must be an integer >= -1"},
	keyDisklessEnable:      {isBool, "must be true or false"},
	keyRemoteStorageEnable: {isBool, "must be true or false"},
	keyUncleanElection:     {isBool, "must be true or false"},
}

// fixedConfig are the keys that do not change once a topic exists.
var fixedConfig = []string{keyDisklessEnable, keyRemoteStorageEnable}

func isBool(v string) bool { return v == "true" || v == "false" }

func isRetention(v string) bool {
	n, err := strconv.ParseInt(v, 10, 64)
	return err == nil && n >= -1 && strconv.FormatInt(n, 10) == v
}

func isCleanupPolicy(v string) bool {
	switch v {
	case "delete", "compact", "delete,compact", "compact,delete":
		return true
	}
	return false
}

// checkConfig is the 400 for the first key, in order, that is unknown or has a
// value it cannot have. field is the path of the config.
func checkConfig(field string, config map[string]string) error {
	for _, k := range slices.Sorted(maps.Keys(config)) {
		path := field + "[" + strconv.Quote(k) + "]"
		known, ok := configKeys[k]
		if !ok {
			return invalid(path, "unknown config key, known are %s", strings.Join(slices.Sorted(maps.Keys(configKeys)), ", "))
		}
		if !known.valid(config[k]) {
			return invalid(path, "%s", known.rule)
		}
	}
	return nil
}
