// Whether the race detector is on, under which nothing is true of allocations.

//go:build !race

package mcphttp_test

// raceEnabled says whether the race detector is on.
const raceEnabled = false
