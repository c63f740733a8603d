package store

// File is the row of a file id.
func (tx *ReadTx) File(id uint64) (File, bool, error) { return tx.files.read(tx, id) }

// FileByKey is the file of an object key.
func (tx *ReadTx) FileByKey(objectKey string) (File, bool, error) {
	key := []byte(objectKey)
	payload, ok, err := tx.get(bucketFileKeys, key)
	if err != nil || !ok {
		return File{}, false, err
	}
	if len(payload) != fileKeySize {
		return File{}, false, corrupt(bucketFileKeys, key, "not a file id")
	}
	f, ok, err := tx.File(decodeID(payload))
	if err == nil && !ok {
		err = corrupt(bucketFileKeys, key, "file is missing")
	}
	return f, ok, err
}

// ObjectKey is the object key of a file that a batch refers to.
func (tx *ReadTx) ObjectKey(fileID uint64) (string, error) {
	key := appendID(tx.key[:0], fileID)
	if tx.write != nil {
		f, ok, err := tx.File(fileID)
		if err == nil && !ok {
			err = corrupt(bucketFiles, key, "file of a batch is missing")
		}
		return f.ObjectKey, err
	}
	payload, ok, err := tx.get(bucketFiles, key)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", corrupt(bucketFiles, key, "file of a batch is missing")
	}
	r := rowReader{buf: payload}
	objectKey := r.string()
	if r.bad {
		return "", corrupt(bucketFiles, key, "row does not decode")
	}
	return objectKey, nil
}

// Files calls fn for each file with an id above after, in order of id, until it
// returns false.
func (tx *ReadTx) Files(after uint64, fn func(*File) bool) error {
	if tx.write != nil {
		if err := tx.files.flush(tx.write); err != nil {
			return err
		}
	}
	var room [fileKeySize]byte
	c := tx.bucket(bucketFiles).Cursor()
	for k, row := c.Seek(appendID(room[:0], after+1)); k != nil; k, row = c.Next() {
		payload, err := openRow(bucketFiles, k, row)
		if err != nil {
			return err
		}
		f, err := decodeFile(k, payload)
		if err != nil {
			return err
		}
		if !fn(&f) {
			return nil
		}
	}
	return nil
}

// NextFileID takes the next file id.
func (tx *WriteTx) NextFileID() uint64 {
	tx.meta.LastFileID++
	return tx.meta.LastFileID
}

// CreateFile writes a new file, with its replay, under an id from NextFileID.
// One without batches is marked for deletion at its commit.
func (tx *WriteTx) CreateFile(f File, p Replay) error {
	f.State = FileUploaded
	tx.meta.Totals.FilesUploaded++
	if f.BatchCount == 0 {
		if err := tx.markFile(&f, f.CommittedAt); err != nil {
			return err
		}
	}
	if _, err := tx.files.write(tx, f.ID, f); err != nil {
		return err
	}
	id := appendID(tx.arena.buf(fileKeySize+crcSize), f.ID)
	if err := tx.putRaw(bucketFileKeys, []byte(f.ObjectKey), id); err != nil {
		return err
	}
	tx.meta.Totals.Replays++
	return tx.put(bucketReplays, id, appendReplay(tx.arena.buf(160), &p))
}

// releaseFile takes one batch from a file and says whether it was the last.
func (tx *WriteTx) releaseFile(id uint64, nowMs int64) (marked bool, err error) {
	s, err := tx.files.slot(&tx.ReadTx, id)
	if err != nil {
		return false, err
	}
	if !s.exists || s.value.BatchCount <= 0 {
		return false, corrupt(bucketFiles, appendID(nil, id), "file of a batch is missing or counts none")
	}
	s.dirty = true
	if s.value.BatchCount--; s.value.BatchCount > 0 {
		return false, nil
	}
	return true, tx.markFile(&s.value, nowMs)
}

func (tx *WriteTx) markFile(f *File, nowMs int64) error {
	f.State, f.MarkedForDeletionAt = FileDeleting, nowMs
	tx.meta.Totals.FilesUploaded--
	tx.meta.Totals.FilesDeleting++
	return tx.putRaw(bucketDeletingFiles, appendDeletingKey(tx.arena.buf(deletingKeySize), nowMs, f.ID), tx.arena.buf(crcSize))
}

// DeletingFiles calls fn for each file marked for deletion before ms, oldest
// mark first, then by file id, until it returns false.
func (tx *ReadTx) DeletingFiles(beforeMs int64, fn func(*File) bool) error {
	c := tx.bucket(bucketDeletingFiles).Cursor()
	for k, row := c.First(); k != nil && decodeTime(k) < beforeMs; k, row = c.Next() {
		if _, err := openRow(bucketDeletingFiles, k, row); err != nil {
			return err
		}
		f, ok, err := tx.File(decodeID(k[8:]))
		if err != nil {
			return err
		}
		if !ok {
			return corrupt(bucketDeletingFiles, k, "file is missing")
		}
		if !fn(&f) {
			return nil
		}
	}
	return nil
}

// ForgetFile removes a file in state deleting, and its replay.
func (tx *WriteTx) ForgetFile(f *File) error {
	if _, err := tx.files.remove(tx, f.ID); err != nil {
		return err
	}
	if err := tx.delete(bucketFileKeys, []byte(f.ObjectKey)); err != nil {
		return err
	}
	if err := tx.delete(bucketDeletingFiles, appendDeletingKey(tx.arena.buf(deletingKeySize), f.MarkedForDeletionAt, f.ID)); err != nil {
		return err
	}
	tx.meta.Totals.FilesDeleting--
	_, ok, err := tx.Replay(f.ID)
	if err != nil || !ok {
		return err
	}
	return tx.DropReplay(f.ID)
}

// Replay is what was kept of the commit that made a file.
func (tx *ReadTx) Replay(fileID uint64) (Replay, bool, error) {
	key := appendID(tx.key[:0], fileID)
	payload, ok, err := tx.get(bucketReplays, key)
	if err != nil || !ok {
		return Replay{}, false, err
	}
	p, err := decodeReplay(key, payload)
	return p, err == nil, err
}

// Replays calls fn with the file id and time of each replay, oldest first, until
// it returns false. fn must not drop any.
func (tx *ReadTx) Replays(fn func(fileID uint64, clockMs int64) bool) error {
	c := tx.bucket(bucketReplays).Cursor()
	for k, row := c.First(); k != nil; k, row = c.Next() {
		payload, err := openRow(bucketReplays, k, row)
		if err != nil {
			return err
		}
		p, err := decodeReplay(k, payload)
		if err != nil {
			return err
		}
		if !fn(decodeID(k), p.ClockMs) {
			return nil
		}
	}
	return nil
}

// DropReplay removes the replay of a file, which must exist.
func (tx *WriteTx) DropReplay(fileID uint64) error {
	tx.changes++
	tx.meta.Totals.Replays--
	return tx.delete(bucketReplays, appendID(tx.arena.buf(fileKeySize), fileID))
}
