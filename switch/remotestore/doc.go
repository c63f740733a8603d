// Package remotestore is remote storage of rolled segments in a directory, which stands for
// a bucket that all brokers share.
//
// Store is that directory: segments are uploaded, listed, read and deleted. View is what one
// broker knows of it: the listing as of its last refresh. Two brokers may see different
// highest offsets at the same moment, and each may delete locally only what its own view
// covers.
//
// A store that keeps no bytes (OpenWithoutBytes) lists what was uploaded and has none of it:
// whoever deletes local segments relying on it loses them, which tests want to see.
//
// All methods may be called concurrently, and by several processes on one directory.
package remotestore
