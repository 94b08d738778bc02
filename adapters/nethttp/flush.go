// Flushing through wrappers. Middleware wraps the response writer, and wrappers
// swallow the error of a flush, or cannot flush and do not say so. So it is looked
// for before the status is sent what a flush would reach.

package mcphttp

import (
	"net/http"

	"github.com/mcplisten/mcplisten/core"
)

// errorFlusher is a writer whose flush tells whether it worked.
type errorFlusher interface{ FlushError() error }

// flusher flushes a response writer.
type flusher struct {
	outer http.Flusher // of the outermost wrapper that flushes silently; may be nil
	inner errorFlusher // of the first writer below it that tells; may be nil
}

// findFlusher returns how to flush w. It fails where the writer at the bottom of
// the wrappers, which all of them rely on, cannot be flushed: a wrapper's own
// Flush is then silent, or panics.
func findFlusher(w http.ResponseWriter) (flusher, error) {
	var f flusher
	for {
		silent, flushes := w.(http.Flusher)
		telling, tells := w.(errorFlusher)
		switch {
		case f.inner != nil:
		case tells:
			f.inner = telling
		case flushes && f.outer == nil:
			f.outer = silent
		}
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			if flushes || tells {
				return f, nil
			}
			return f, &core.Error{
				Code:    core.CodeInternalError,
				Message: "the response cannot be streamed: a middleware's response writer cannot be flushed",
				Refusal: core.RefusedTransport,
			}
		}
		w = wrapper.Unwrap()
	}
}

// flush flushes and tells whether it worked, where anything can: the second
// flush sends nothing more, but gets the error that the first one swallowed.
func (f flusher) flush() error {
	if f.outer != nil {
		f.outer.Flush()
	}
	if f.inner != nil {
		return f.inner.FlushError()
	}
	return nil
}
