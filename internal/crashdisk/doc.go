// Package crashdisk knows what a crash leaves of the files of a store: after a kill all
// that was written, after a power cut of each page any version since the last sync.
//
// [Watch] sees every change that a store makes, [Disk] remembers them and puts together
// what is left.
package crashdisk
