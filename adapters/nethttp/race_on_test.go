// Whether the race detector is on, under which nothing is true of allocations.

//go:build race

package mcphttp_test

const raceEnabled = true
