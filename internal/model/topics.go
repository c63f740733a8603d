package model

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
)

// The origins of a topic.
const (
	diskless = "diskless"
	classic  = "classic"
)

type createTopicsRequest struct {
	Topics []createTopic `json:"topics"`
}

type createTopic struct {
	TopicID        topicID           `json:"topic_id"`
	Name           string            `json:"topic_name"`
	FirstPartition partition         `json:"first_partition"`
	NumPartitions  partition         `json:"num_partitions"`
	Config         map[string]string `json:"config"`
}

type createTopicsAnswer struct {
	Topics []createTopicAnswer `json:"topics"`
}

type createTopicAnswer struct {
	TopicID topicID `json:"topic_id"`
	Error   string  `json:"error"`
	Created int     `json:"partitions_created"`
}

func (m *Model) createTopics(r createTopicsRequest) (any, string) {
	for _, t := range r.Topics {
		for key, value := range t.Config {
			if !legalConfig(key, value) {
				return nil, invalidRequest
			}
		}
	}
	answer := createTopicsAnswer{Topics: []createTopicAnswer{}}
	for _, t := range r.Topics {
		item := createTopicAnswer{t.TopicID, m.checkCreate(t), none}
		if item.Error == noError {
			item.Created = m.createTopic(t)
		}
		answer.Topics = append(answer.Topics, item)
	}
	return answer, ""
}

func (m *Model) checkCreate(r createTopic) string {
	if r.FirstPartition > r.NumPartitions || int(r.NumPartitions) > m.cfg.MaxPartitionsPerTopic {
		return invalidRequest
	}
	t := m.topics[r.TopicID]
	if t == nil {
		return m.checkName(r.TopicID, r.Name)
	}
	if t.deletedAt != live || t.name != r.Name || t.origin == classic || t.changesFixed(r.Config) {
		return invalidRequest
	}
	return noError
}

// changesFixed says that a config would change what a topic keeps.
func (t *topic) changesFixed(config map[string]string) bool {
	for _, key := range []string{"diskless.enable", "remote.storage.enable"} {
		if value, given := config[key]; given && value != t.config[key] {
			return true
		}
	}
	return false
}

var legalName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// checkName says whether a topic that is not known yet may have this id and name.
func (m *Model) checkName(id topicID, name string) string {
	if id == zeroTopicID || !legalName.MatchString(name) || name == "." || name == ".." {
		return invalidRequest
	}
	if m.topicNamed(name) != nil {
		return topicExists
	}
	return noError
}

var (
	legalPolicy    = regexp.MustCompile(`^(delete|compact)(,(delete|compact))*$`)
	legalRetention = regexp.MustCompile(`^(-1|\+?[0-9]+)$`)
)

// legalConfig says whether a topic's config may have this key with this value.
func legalConfig(key, value string) bool {
	switch key {
	case "cleanup.policy":
		return legalPolicy.MatchString(value)
	case "retention.ms", "retention.bytes":
		return legalRetention.MatchString(value)
	case "diskless.enable", "remote.storage.enable", "unclean.leader.election.enable":
		return value == "true" || value == "false"
	}
	return false
}

func (m *Model) createTopic(r createTopic) (created int) {
	t := m.topics[r.TopicID]
	if t == nil {
		if r.FirstPartition == r.NumPartitions {
			return 0
		}
		t = m.addTopic(r.TopicID, r.Name)
	}
	m.mergeConfig(t, r.Config)
	for p := r.FirstPartition; p < r.NumPartitions; p++ {
		if t.logs[p] == nil {
			t.logs[p] = &log{remoteStart: none, producers: map[int64]*producer{}}
			created++
			m.changed = true
		}
	}
	return created
}

func (m *Model) mergeConfig(t *topic, config map[string]string) {
	for key, value := range config {
		if old, ok := t.config[key]; !ok || old != value {
			t.config[key] = value
			m.changed = true
		}
	}
}

func (m *Model) addTopic(id topicID, name string) *topic {
	t := &topic{id: id, name: name, origin: diskless, deletedAt: live, config: map[string]string{},
		logs: map[partition]*log{}, parts: map[partition]*registration{}}
	m.topics[id] = t
	return t
}

type deleteTopicsRequest struct {
	TopicIDs []topicID `json:"topic_ids"`
}

type deleteTopicsAnswer struct {
	LogsDeleted int `json:"logs_deleted"`
}

func (m *Model) deleteTopics(r deleteTopicsRequest) (any, string) {
	var answer deleteTopicsAnswer
	for _, id := range r.TopicIDs {
		if t := m.topics[id]; t != nil && t.deletedAt == live {
			t.deletedAt = m.now
			m.changed = true
			answer.LogsDeleted += len(t.logs)
			t.parts = map[partition]*registration{}
			if len(t.logs) == 0 { // nothing to purge
				delete(m.topics, id)
			}
		}
	}
	return answer, ""
}

// listRequest is what the lists have in common.
type listRequest struct {
	After string  `json:"after"`
	State string  `json:"state"` // list-files only
	Limit natural `json:"limit"`
}

const (
	defaultListLimit = 1000
	maxListLimit     = 10_000
)

// UnmarshalJSON fills in the defaults and refuses a limit that is too large.
func (r *listRequest) UnmarshalJSON(text []byte) error {
	type plain listRequest
	p := plain{Limit: defaultListLimit}
	err := json.Unmarshal(text, &p)
	*r = listRequest(p)
	if err == nil && r.Limit > maxListLimit {
		return errRefused
	}
	return err
}

type topicRow struct {
	TopicID    topicID           `json:"topic_id"`
	Name       string            `json:"topic_name"`
	Origin     string            `json:"origin"`
	Partitions int               `json:"partitions"`
	DeletedAt  int64             `json:"deleted_at"`
	Config     map[string]string `json:"config"`
}

type listTopicsAnswer struct {
	Topics []topicRow `json:"topics"`
	Next   string     `json:"next"`
}

func (m *Model) listTopics(r listRequest) (any, string) {
	var after topicID
	if r.After != "" && after.UnmarshalText([]byte(r.After)) != nil {
		return nil, invalidRequest
	}
	answer := listTopicsAnswer{Topics: []topicRow{}}
	for _, id := range slices.Sorted(maps.Keys(m.topics)) {
		if id <= after {
			continue
		}
		if capped(len(answer.Topics), r.Limit) {
			answer.Next = string(answer.Topics[len(answer.Topics)-1].TopicID)
			break
		}
		answer.Topics = append(answer.Topics, m.topics[id].row())
	}
	return answer, ""
}

func (t *topic) row() topicRow {
	return topicRow{t.id, t.name, t.origin, max(len(t.logs), len(t.parts)), t.deletedAt, maps.Clone(t.config)}
}

type describeRequest struct {
	TopicID topicID `json:"topic_id"`
	Name    string  `json:"topic_name"`
}

type describeAnswer struct {
	Error string `json:"error"`
	topicRow
	Logs []logInfo `json:"logs"`
}

func (m *Model) describeTopic(r describeRequest) (any, string) {
	if (r.TopicID == "") == (r.Name == "") {
		return nil, invalidRequest
	}
	t := m.topics[r.TopicID]
	if t == nil {
		t = m.topicNamed(r.Name)
	}
	if t == nil {
		missing := topicRow{TopicID: cmp.Or(r.TopicID, zeroTopicID), Name: r.Name, Partitions: none, DeletedAt: none, Config: map[string]string{}}
		return describeAnswer{unknownPartition, missing, []logInfo{}}, ""
	}
	answer := describeAnswer{noError, t.row(), []logInfo{}}
	for _, p := range slices.Sorted(maps.Keys(t.logs)) {
		answer.Logs = append(answer.Logs, m.logInfo(target{t.id, p}))
	}
	return answer, ""
}
