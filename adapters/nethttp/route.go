// The route to the connection. Middleware wraps the response writer, and a
// wrapper may hold back what is written: it cannot flush, its Flush does nothing,
// or a flush goes past it. So the wrappers are looked at before the status is
// sent, and the stream is refused where it would not be prompt.

package mcphttp

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// route is how a stream reaches the connection.
type route struct {
	w       http.ResponseWriter // where to write
	flusher flusher
	control deadliner // sets write deadlines; nil where the connection is hidden
	around  bool      // w is not the outermost writer: some get the headers only
	asks    bool      // some wrapper knows whether the headers have been written

	// What the innermost wrapper from w on that knows says of what came through.
	started interface{ Written() bool } // the headers; nil where none knows
	passed  func() int                  // bytes; nil where none knows
}

type deadliner interface{ SetWriteDeadline(time.Time) error }

// findRoute returns the route through w. It fails where there is none on which
// all that is written can be flushed.
func findRoute(w http.ResponseWriter) (route, error) {
	r := route{w: w}
	for {
		flushes := r.flusher.add(w)
		inner := unwrap(w, flushes)
		if r.control == nil {
			r.control, _ = w.(deadliner)
		}
		switch {
		case flushes:
			r.ask(w)
		case inner == nil:
			return r, cannotStream("a middleware's response writer cannot be flushed", fmt.Errorf("%T", w))
		default:
			// A flush goes past it, and it may hold what it got: write below it.
			r = route{w: inner, control: r.control, around: true, asks: r.asks}
		}
		if inner == nil {
			return r, nil
		}
		w = inner
	}
}

// unwrap returns the writer that w wraps, nil for none. A wrapper that flushes
// but has no Unwrap method, as gin's all are, is looked into: its own Flush does
// not tell whether what it embeds can be flushed.
func unwrap(w http.ResponseWriter, flushes bool) http.ResponseWriter {
	if u, ok := w.(interface{ Unwrap() http.ResponseWriter }); ok {
		return u.Unwrap()
	}
	if _, tells := w.(errorFlusher); tells || !flushes {
		return nil
	}
	v := reflect.Indirect(reflect.ValueOf(w))
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		field := v.Field(i)
		pointer := field.Kind() == reflect.Interface || field.Kind() == reflect.Pointer
		if !v.Type().Field(i).Anonymous || !pointer || !field.CanInterface() || field.IsNil() {
			continue
		}
		if inner, ok := field.Interface().(http.ResponseWriter); ok {
			return inner
		}
	}
	return nil
}

// ask notes what w can say of what came through to it.
func (r *route) ask(w http.ResponseWriter) {
	if s, ok := w.(interface{ Written() bool }); ok {
		r.started, r.asks = s, true
	}
	switch c := w.(type) {
	case interface{ BytesWritten() int }:
		r.passed = c.BytesWritten
	case interface{ Size() int }:
		r.passed = c.Size
	}
}

// streamHeaders are the headers of a stream.
var streamHeaders = map[string]string{
	"Content-Type":      "text/event-stream",
	"Cache-Control":     "no-cache, no-transform",
	"X-Accel-Buffering": "no", // nginx holds back the stream otherwise
}

// writeHeaders writes the headers of a stream, for all the wrappers of outer. It
// fails, with no header written, where they do not come through.
func (r *route) writeHeaders(outer http.ResponseWriter) error {
	if r.around && outer.Header().Get("Content-Encoding") != "" {
		return cannotStream("a middleware encodes it, and a response writer below cannot be flushed", fmt.Errorf("%T", outer))
	}
	for _, header := range []http.Header{outer.Header(), r.w.Header()} {
		if r.around || aboutToEncode(header) {
			header.Set("Content-Encoding", "identity")
		}
		header.Del("Content-Length") // of whatever else: a stream has none
		for name, value := range streamHeaders {
			header.Set(name, value)
		}
	}
	if !r.asks {
		outer.WriteHeader(http.StatusOK)
		return nil
	}
	// An empty write writes them as well, and where nothing comes of it nothing is
	// lost.
	_, err := outer.Write(nil)
	if err == nil && r.around {
		_, err = r.w.Write(nil)
	}
	if err == nil && (r.started == nil || r.started.Written()) {
		return nil
	}
	for name := range streamHeaders {
		outer.Header().Del(name)
	}
	if outer.Header().Get("Content-Encoding") == "identity" {
		outer.Header().Del("Content-Encoding")
	}
	return cannotStream("a middleware's response writer holds back what is written", fmt.Errorf("%T", outer))
}

// aboutToEncode reports whether a middleware has said that the answer depends on
// Accept-Encoding, and has not yet encoded it: it is waiting for the first bytes.
// With an encoding set it leaves them alone. Otherwise it may keep them until
// there are enough, and keeps a compressor for the life of the stream.
func aboutToEncode(header http.Header) bool {
	if header.Get("Content-Encoding") != "" {
		return false
	}
	for _, vary := range header["Vary"] {
		if strings.Contains(strings.ToLower(vary), "accept-encoding") {
			return true
		}
	}
	return false
}

// holdsBack returns how to tell, once something was written and flushed, whether
// it was held back all the same; nil where nobody can.
func (r *route) holdsBack() func() bool {
	if r.passed == nil {
		return nil
	}
	passed, before := r.passed, r.passed()
	return func() bool { return passed() <= before }
}

// errHeldBack is the error of a write that did not come through.
var errHeldBack = errors.New("mcphttp: a middleware's response writer holds back what is written")

func cannotStream(why string, err error) *core.Error {
	return &core.Error{
		Code: core.CodeInternalError, Message: "the response cannot be streamed: " + why,
		Refusal: core.RefusedTransport, Err: err,
	}
}
