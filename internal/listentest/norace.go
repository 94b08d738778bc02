// Built without the race detector.

//go:build !race

package listentest

const raceDetector = false
