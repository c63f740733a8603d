package ops

import (
	"fmt"

	"github.com/cpnode/cpnode/store"
)

// DeleteFilesRequest reports objects that are gone, so that their files are forgotten.
type DeleteFilesRequest struct {
	ObjectKeys []string `json:"object_keys"`
}

// DeleteFilesResponse answers each key in the order of the request.
type DeleteFilesResponse struct {
	Files []DeletedFile `json:"files"`
}

// DeletedFile is the answer to one key: NONE also for an unknown one, FILE_IN_USE
// when batches refer to the file, which is kept.
type DeletedFile struct {
	ObjectKey string `json:"object_key"`
	Error     Code   `json:"error"`
}

// Validate bounds the request and its keys.
func (r *DeleteFilesRequest) Validate(lim Limits) error {
	for i, key := range r.ObjectKeys {
		if err := checkObjectKey(fmt.Sprintf("object_keys[%d]", i), key, lim); err != nil {
			return err
		}
	}
	return atMost("object_keys", len(r.ObjectKeys), lim.Items)
}

// checkObjectKey is the 400 for a key that no file can have.
func checkObjectKey(field, key string, lim Limits) error {
	if key == "" || len(key) > lim.ObjectKey {
		return invalid(field, "must be 1 to %d bytes", lim.ObjectKey)
	}
	return nil
}

// Begin logs entries of s.ItemRows keys, fewer when these are long.
func (r *DeleteFilesRequest) Begin(s Settings) Steps {
	return &together[string, DeletedFile]{
		items: r.ObjectKeys, budget: s.ItemRows, weigh: func(key *string) int64 { return 1 + textWeight(*key) },
		decide:  (&deleteFiles{fenceMs: s.ForgottenKeyRetentionMs}).decide,
		command: func(keys []string) Command { return &deleteFiles{keys: keys, fenceMs: s.ForgottenKeyRetentionMs} },
		respond: func(answers []DeletedFile) any { return &DeleteFilesResponse{Files: answers} },
	}
}

// deleteFiles is the logged command.
type deleteFiles struct {
	keys    []string
	fenceMs int64
}

func (*deleteFiles) Op() string { return "delete-files" }

func (c *deleteFiles) fields(f *codec) {
	f.object(2, func(f *codec) {
		f.strings(&c.keys)
		f.int64(&c.fenceMs)
	})
}

// Apply forgets the files of the command's keys, one after the other.
func (c *deleteFiles) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	return applyTogether(tx, c.keys, nowMs, c.decide)
}

// decide fences a forgotten key, so that a late copy of its commit cannot make a
// deleted object live. An older fence of the key ended before the file was made.
func (c *deleteFiles) decide(tx *store.ReadTx, key *string, nowMs int64) (change[DeletedFile], error) {
	answer := DeletedFile{*key, None}
	f, ok, err := tx.FileByKey(*key)
	if err != nil || !ok {
		return change[DeletedFile]{answer: answer}, err
	}
	if f.State == store.FileUploaded {
		answer.Error = FileInUse
		return change[DeletedFile]{answer: answer}, nil
	}
	return change[DeletedFile]{answer, func(tx *store.WriteTx) error {
		if err := tx.ForgetFile(&f); err != nil {
			return err
		}
		return tx.PutFence(*key, deadline(nowMs, c.fenceMs))
	}}, nil
}
