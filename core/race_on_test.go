// Whether the race detector is on, under which nothing is true of allocations.

//go:build race

package core_test

const raceEnabled = true
