// Package wal keeps the entries of a raft log in segment files that are only ever
// appended to: one sync an append, where a B+tree takes two.
//
// The files are those of github.com/hashicorp/raft-wal/segment, written and read by
// it. Which files make up the log, and from where to where, is in a list that the
// caller keeps durably (List); this package changes files before the list where they
// are added, and after it where they are removed. It reads what is on disk more
// strictly than raft-wal does, which takes whatever does not look right for the end
// of the log: see Log.
package wal
