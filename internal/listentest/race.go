// Built with the race detector, publishing costs twenty times as much.

//go:build race

package listentest

const raceDetector = true
