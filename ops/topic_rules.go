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

// checkNewTopic says why a topic id that has no row cannot appear under a name, nil
// when it can.
func checkNewTopic(tx *store.ReadTx, id store.TopicID, name string) (refused *Error, err error) {
	switch {
	case id.IsZero():
		return Errorf(InvalidRequest, "the zero UUID is not a topic"), nil
	case !legalName(name):
		return Errorf(InvalidRequest, "the name must be 1 to %d letters, digits, '.', '_' and '-', and not . or ..", maxTopicName), nil
	}
	other, taken, err := tx.TopicByName(name)
	if err != nil || !taken {
		return nil, err
	}
	return Errorf(TopicAlreadyExists, "the name is that of topic %s", other), nil
}

// checkKnownTopic says why a topic that has a row cannot be made, or given partitions,
// as one of this name, origin and config; nil when it can.
func checkKnownTopic(t *store.Topic, name string, origin store.Origin, config map[string]string) *Error {
	switch {
	case t.Deleted:
		return Errorf(InvalidRequest, "the topic is being deleted")
	case t.Name != name:
		return Errorf(InvalidRequest, "the topic's name is %s", t.Name)
	case t.Origin != origin:
		return Errorf(InvalidRequest, "the topic's origin is %s", t.Origin)
	}
	for _, k := range fixedConfig {
		if v, given := config[k]; given && v != t.Config[k] {
			return Errorf(InvalidRequest, "%s of an existing topic does not change", k)
		}
	}
	return nil
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
