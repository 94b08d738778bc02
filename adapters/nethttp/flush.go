// Flushing: wrappers swallow the error of a flush, so the first writer below them
// that tells is asked as well.

package mcphttp

import "net/http"

// errorFlusher is a writer whose flush tells whether it worked.
type errorFlusher interface{ FlushError() error }

// flusher flushes a response writer.
type flusher struct {
	outer http.Flusher // of the outermost wrapper that flushes silently; may be nil
	inner errorFlusher // of the first writer below it that tells; may be nil
}

// add takes the next writer on the way down into account and reports whether it
// can be flushed at all.
func (f *flusher) add(w http.ResponseWriter) bool {
	silent, flushes := w.(http.Flusher)
	telling, tells := w.(errorFlusher)
	switch {
	case f.inner != nil:
	case tells:
		f.inner = telling
	case f.outer == nil:
		f.outer = silent
	}
	return flushes || tells
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
