package ops

import "github.com/cpnode/cpnode/store"

// ListTopicsRequest lists topics by id, also those that wait to be purged.
type ListTopicsRequest struct {
	After string `json:"after" default:"" doc:"The last answer's next; empty = from the start."`
	Limit int64  `json:"limit" default:"1000" min:"0" doc:"At most 10,000; 0 = no limit but that of an answer."`
}

// ListTopicsResponse is one page; Next is empty on the last one.
type ListTopicsResponse struct {
	Topics []TopicInfo `json:"topics"`
	Next   string      `json:"next"`
}

// TopicInfo is one topic; Partitions and DeletedAt are -1 when there is none.
type TopicInfo struct {
	TopicID    store.TopicID     `json:"topic_id"`
	TopicName  string            `json:"topic_name"`
	Origin     string            `json:"origin" doc:"classic or diskless: how the topic first appeared."`
	Partitions int64             `json:"partitions" doc:"Those with a log, or of a classic topic those that are registered."`
	DeletedAt  int64             `json:"deleted_at" doc:"Unix ms of the soft delete, -1 = live."`
	Config     map[string]string `json:"config"`
}

// Validate bounds the page and reads the position.
func (r *ListTopicsRequest) Validate(lim Limits) error {
	if _, err := r.after(); err != nil {
		return err
	}
	return checkListLimit(r.Limit, lim)
}

func (r *ListTopicsRequest) after() (store.TopicID, error) {
	if r.After == "" {
		return store.TopicID{}, nil
	}
	id, err := store.ParseTopicID(r.After)
	if err != nil {
		return id, invalid("after", "is not a position that an answer gave")
	}
	return id, nil
}

// defaultListRows is the limit of a list that names none. It is always taken: where
// ListedMaximum is smaller, pages are.
const defaultListRows = 1000

func checkListLimit(limit int64, lim Limits) error {
	if most := int64(max(lim.ListedMaximum, defaultListRows)); limit > most {
		return invalid("limit", "must be <= %d", most)
	}
	return nil
}

// listRows is how many rows a page of a list takes.
func listRows(limit int64, lim Limits) int {
	if limit == 0 {
		return pageRows(limit, lim)
	}
	return min(pageRows(limit, lim), lim.ListedMaximum)
}

// pageRows is how many rows a page takes.
func pageRows(limit int64, lim Limits) int {
	if limit == 0 {
		return lim.AnswerRows
	}
	return int(min(limit, int64(lim.AnswerRows)))
}

// Query is one forward scan of the page.
func (r *ListTopicsRequest) Query(tx *store.ReadTx, lim Limits) (any, error) {
	after, err := r.after()
	if err != nil {
		return nil, err
	}
	answer, rows := &ListTopicsResponse{Topics: []TopicInfo{}}, listRows(r.Limit, lim)
	err = tx.Topics(after, func(id store.TopicID, t *store.Topic) (bool, error) {
		if len(answer.Topics) == rows {
			answer.Next = answer.Topics[rows-1].TopicID.String()
			return false, nil
		}
		answer.Topics = append(answer.Topics, topicInfo(id, t))
		return true, nil
	})
	return answer, err
}

func topicInfo(id store.TopicID, t *store.Topic) TopicInfo {
	info := TopicInfo{TopicID: id, TopicName: t.Name, Origin: t.Origin.String(), Partitions: max(t.Logs, t.Registrations), DeletedAt: -1, Config: t.Config}
	if t.Deleted {
		info.DeletedAt = t.DeletedAt
	}
	return info
}
