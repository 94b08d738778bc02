// Outcomes: which refusals and ends are errors, and what they are called.

package mcpotel

import (
	"strconv"

	"github.com/mcplisten/mcplisten/core"
)

// codeResourceNotFound is MCP's, and a caller's fault; an application's
// authorizer may use it.
const codeResourceNotFound = -32002

func refusedIsError(e *core.Error) bool {
	switch e.Code {
	case core.CodeParseError, core.CodeInvalidRequest, core.CodeMethodNotFound, core.CodeInvalidParams, codeResourceNotFound:
		return false
	default:
		return e.Refusal != core.RefusedCanceled
	}
}

func endIsError(e core.End) bool {
	switch e.Reason {
	case core.SlowClient, core.WriteError, core.Panicked:
		return true
	case core.Shutdown:
		return !e.Graceful
	default:
		return false
	}
}

// refusedType returns the error.type of a refusal, empty where it is no error.
func (o *Observer) refusedType(e *core.Error) string {
	if !o.refusedIsError(e) {
		return ""
	}
	return strconv.Itoa(e.Code)
}

// endType returns the error.type of an end, empty where it is no error.
func (o *Observer) endType(e core.End) string {
	if !o.endIsError(e) {
		return ""
	}
	return failureOf(e)
}

// failureOf names what an end was if it was a failure: for what could not be sent
// because of it, that is so even where the end is no error.
func failureOf(e core.End) string {
	if e.Reason == core.Shutdown && !e.Graceful {
		return errorDrainTimeout
	}
	return string(e.Reason)
}

// failures are all that failureOf returns.
func failures() []string {
	words := []string{errorDrainTimeout}
	for _, r := range core.Reasons() {
		words = append(words, string(r))
	}
	return words
}

// describe returns the fixed text of a span's status.
func describe(errorType string) string {
	switch errorType {
	case errorDrainTimeout:
		return "the result could not be flushed before the shutdown was over"
	case string(core.SlowClient):
		return "the client did not read in time"
	case string(core.WriteError):
		return "writing to the client failed"
	case string(core.Panicked):
		return "a hook panicked"
	default:
		return "the stream ended as " + errorType
	}
}
