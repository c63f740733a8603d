package ops

import "fmt"

// Code names an error, of an item or of a whole request. Item errors are
// Kafka's names.
type Code string

// Item errors.
const (
	None                    Code = "NONE"
	UnknownTopicOrPartition Code = "UNKNOWN_TOPIC_OR_PARTITION"
	OffsetOutOfRange        Code = "OFFSET_OUT_OF_RANGE"
	InvalidProducerEpoch    Code = "INVALID_PRODUCER_EPOCH"
	OutOfOrderSequence      Code = "OUT_OF_ORDER_SEQUENCE_NUMBER"
	UnsupportedVersion      Code = "UNSUPPORTED_VERSION"
	TopicAlreadyExists      Code = "TOPIC_ALREADY_EXISTS"
	FileInUse               Code = "FILE_IN_USE"
	AlreadyInitialized      Code = "ALREADY_INITIALIZED"
	InvalidRequest          Code = "INVALID_REQUEST" // of an item or of a whole request

	UnknownTopicID              Code = "UNKNOWN_TOPIC_ID"
	FencedLeaderEpoch           Code = "FENCED_LEADER_EPOCH" // the epoch of the request is below ours
	NotController               Code = "NOT_CONTROLLER"      // the epoch of the request is above ours
	NotLeaderOrFollower         Code = "NOT_LEADER_OR_FOLLOWER"
	InvalidUpdateVersion        Code = "INVALID_UPDATE_VERSION" // the partition epoch of the request is not ours
	IneligibleReplica           Code = "INELIGIBLE_REPLICA"
	ElectionNotNeeded           Code = "ELECTION_NOT_NEEDED"
	PreferredLeaderNotAvailable Code = "PREFERRED_LEADER_NOT_AVAILABLE"
	EligibleLeadersNotAvailable Code = "ELIGIBLE_LEADERS_NOT_AVAILABLE"
	DuplicateBroker             Code = "DUPLICATE_BROKER_REGISTRATION"
	StaleBrokerEpoch            Code = "STALE_BROKER_EPOCH"
	BrokerIDNotRegistered       Code = "BROKER_ID_NOT_REGISTERED"
)

// Errors of a whole request: the answer is an error object and nothing was
// changed, except after OutcomeUnknown.
const (
	Unauthenticated         Code = "UNAUTHENTICATED"
	Unauthorized            Code = "UNAUTHORIZED"
	UnknownOperation        Code = "UNKNOWN_OPERATION"
	MethodNotAllowed        Code = "METHOD_NOT_ALLOWED"
	UnsupportedMediaType    Code = "UNSUPPORTED_MEDIA_TYPE"
	ObjectKeyConflict       Code = "OBJECT_KEY_CONFLICT"
	ObjectKeyFenced         Code = "OBJECT_KEY_FENCED"
	RequestTooLarge         Code = "REQUEST_TOO_LARGE"
	Overloaded              Code = "OVERLOADED"
	Internal                Code = "INTERNAL"
	UnsupportedFeatureLevel Code = "UNSUPPORTED_FEATURE_LEVEL"
	NoLeader                Code = "NO_LEADER"
	ShuttingDown            Code = "SHUTTING_DOWN"
	StorageFull             Code = "STORAGE_FULL"
	NodeCorrupt             Code = "NODE_CORRUPT"
	OutcomeUnknown          Code = "OUTCOME_UNKNOWN"
	NotCaughtUp             Code = "NOT_CAUGHT_UP"
)

// Error is the error object that answers a whole request. Two are the same to
// errors.Is when their codes are.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// Is compares codes.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Errorf makes an error object.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// invalid is the 400 that names a field.
func invalid(field, problem string, args ...any) *Error {
	return &Error{Code: InvalidRequest, Message: field + ": " + fmt.Sprintf(problem, args...)}
}

// atMost is the 413 for a list that is longer than a limit allows.
func atMost(field string, n, limit int) error {
	if n > limit {
		return Errorf(RequestTooLarge, "%s: %d elements, at most %d", field, n, limit)
	}
	return nil
}
