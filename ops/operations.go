package ops

// The registration table: one line an operation, data path first.
func init() {
	register(Operation{Name: "commit-file", Summary: "Give the batches of a new object their offsets.",
		NewRequest: newOf[CommitFileRequest], NewResponse: func() any { return new(CommitFileResponse) }, NewCommand: func() Command { return new(commitFile) }})
	register(Operation{Name: "find-batches", Summary: "Find the batches to fetch from given offsets on.",
		NewRequest: newOf[FindBatchesRequest], NewResponse: func() any { return new(FindBatchesResponse) }})
}

func newOf[T any, P interface {
	*T
	Request
}]() Request {
	return P(new(T))
}
