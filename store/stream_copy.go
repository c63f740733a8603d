package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
)

// CopyStream copies a stream as it is to w, and checks on the way what can be
// checked without the file in it: the header, the announced size, the count and hash
// at the end, and that the end is the end. An error, ErrStream for a stream that is
// damaged or cut short, leaves w with a part that must not be used.
func CopyStream(w io.Writer, r io.Reader) (StreamInfo, error) {
	hash := sha256.New()
	both := io.MultiWriter(w, hash)
	var header [streamHeaderSize]byte
	if _, err := io.ReadFull(io.TeeReader(r, both), header[:]); err != nil {
		return StreamInfo{}, streamError(err)
	}
	info, err := decodeStreamHeader(header[:])
	if err != nil {
		return info, err
	}
	if _, err := io.CopyN(both, r, info.Size); err != nil {
		return info, streamError(err)
	}
	want := hash.Sum(binary.BigEndian.AppendUint64(nil, uint64(info.Size)))
	var trailer [streamTrailerSize]byte
	if _, err := io.ReadFull(io.TeeReader(r, w), trailer[:]); err != nil {
		return info, streamError(err)
	}
	if !bytes.Equal(trailer[:], want) {
		return info, fmt.Errorf("%w: size or hash differ", ErrStream)
	}
	if n, err := io.ReadFull(r, make([]byte, 1)); n > 0 || err != io.EOF {
		return info, fmt.Errorf("%w: it goes on after its end", ErrStream)
	}
	return info, nil
}

// IsStream says whether what a file begins with is a stream's.
func IsStream(head []byte) bool { return bytes.HasPrefix(head, []byte(streamMagic)) }
