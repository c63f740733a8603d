package main

import "slices"

// shrinking looks for the fewest faults with which a scenario fails.
type shrinking struct {
	tries int // that are left
	times int // that a set of faults is tried
	fails func(keep []int) bool
}

// run takes away parts of faults with which the scenario fails, large ones first, as
// long as it fails without them.
func (s *shrinking) run(faults []int) []int {
	if s.try([]int{}) {
		return nil
	}
	for size := (len(faults) + 1) / 2; size > 0; size /= 2 {
		for at := 0; at < len(faults); {
			fewer := slices.Delete(slices.Clone(faults), at, min(at+size, len(faults)))
			if len(fewer) > 0 && s.try(fewer) {
				faults = fewer
			} else {
				at += size
			}
		}
	}
	return faults
}

// unsure is how often to try where not every run of the same is the same.
const unsure = 2

// try says whether the scenario fails with these faults.
func (s *shrinking) try(faults []int) bool {
	for range s.times {
		if s.tries == 0 {
			return false
		}
		s.tries--
		if s.fails(faults) {
			return true
		}
	}
	return false
}
