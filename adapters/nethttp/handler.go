// The handler: which requests of an endpoint are ours, and what becomes of them.

package mcphttp

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// The headers of MCP's Streamable HTTP transport.
const (
	headerMethod  = "Mcp-Method"
	headerVersion = "Mcp-Protocol-Version"
)

// Handler serves one MCP endpoint. It is safe for concurrent use.
type Handler struct {
	hub    *core.Hub
	config config
	guard  guard

	noDeadline    sync.Once // says so in the log
	inTheWay      sync.Once // likewise
	noByteTimeout sync.Once // likewise
	notLean       sync.Once // likewise
}

// New returns a handler for the hub's endpoint. It fails where the options
// contradict themselves.
func New(hub *core.Hub, options ...Option) (*Handler, error) {
	if hub == nil {
		return nil, errors.New("mcphttp: no hub")
	}
	c := config{
		writeTimeout: DefaultWriteTimeout,
		maxBody:      DefaultMaxBody,
		log:          hub.Logger(),
	}
	for _, option := range options {
		if option != nil {
			option(&c)
		}
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	g, err := newGuard(c.origins, c.hosts)
	if err != nil {
		return nil, err
	}
	return &Handler{hub: hub, config: c, guard: g}, nil
}

// ServeHTTP serves the endpoint on its own: subscriptions/listen and
// server/discover are answered, notifications accepted with 202, and every other
// method is not found.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.Serve(w, r, nil, nil)
}

// Middleware returns the endpoint in front of next, which gets every POST that is
// not a listen request, its body unread by its account.
func (h *Handler) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.Serve(w, r, nil, func() { next.ServeHTTP(w, r) })
	})
}

// Guard returns next behind the rules for Origin and Host that the endpoint's own
// requests obey (see [WithOrigins] and [WithHosts]), for whatever Middleware passes
// on: those requests are next's own affair otherwise.
func (h *Handler) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h.guard.check(r); err != nil {
			x := exchange{h: h, w: w, r: r, received: time.Now()}
			x.refuse(nil, core.Meta{}, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Serve serves one request, for adapters of frameworks that have a context of
// their own. principal returns who asks; nil means as [WithPrincipal] says. next
// passes the request on, with r.Body as it came, and is called before Serve
// returns or not at all; nil means that there is no next handler.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, principal func() string, next func()) {
	if s, c := h.answer(w, r, principal, next); s != nil {
		defer c.disarm()
		s.Serve()
	}
}

// answer does everything with a request but the waiting. It returns the subscription
// if there is one to be served, and its connection. It is not inlined, so that nothing of
// it is on the stack that waits.
//
//go:noinline
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, principal func() string, next func()) (*core.Subscription, *conn) {
	if r.Method != http.MethodPost {
		if next != nil && h.config.passLegacy && (r.Method == http.MethodGet || r.Method == http.MethodDelete) {
			next()
			return nil, nil
		}
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return nil, nil
	}
	if principal == nil && h.config.principal != nil {
		principal = func() string { return h.config.principal(r) }
	}
	x := exchange{h: h, w: w, r: r, principal: principal, received: time.Now(), inFront: next != nil}
	if x.inFront && x.namesOther() {
		next()
		return nil, nil
	}
	var verdict verdict
	returned := onShortStack(h.config.log, func() { verdict = x.open() })
	switch {
	case verdict == passOn:
		next()
	case !returned && !x.begun:
		x.answerError(core.ID{}, &core.Error{Code: core.CodeInternalError, Message: "internal error", Refusal: core.RefusedPanic})
	}
	return x.subscription, x.conn
}

// namesOther reports whether the headers say that a message is not for us, so
// that its body need not be looked at.
func (x *exchange) namesOther() bool {
	named := x.r.Header[headerMethod]
	for _, method := range named {
		if method == core.MethodListen || method == core.MethodCancelled && x.speaksOurs() {
			return false
		}
	}
	return len(named) > 0
}

// onShortStack runs f on a goroutine of its own and waits for it. Reading,
// checking and acknowledging a request take a deep stack, which would stay with
// the goroutine that then waits for the life of the stream. A panic of f goes on
// in the caller, whose stack says nothing of it: so it is logged here. It reports
// whether f returned: a hook may have ended the goroutine.
func onShortStack(log *slog.Logger, f func()) (returned bool) {
	var (
		panicked any
		done     = make(chan struct{})
	)
	go func() {
		defer close(done)
		defer func() {
			if panicked = recover(); panicked != nil && panicked != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
				log.Error("mcphttp: panic", "panic", panicked, "stack", string(debug.Stack()))
			}
		}()
		f()
		returned = true
	}()
	<-done
	if panicked != nil {
		panic(panicked)
	}
	return returned
}

// verdict is what became of a request.
type verdict int

const (
	answered  verdict = iota // nothing is left to do
	passOn                   // it is the next handler's
	streaming                // it was acknowledged and is to be served
	undecided                // not known yet
)

// exchange is one request on its way to an answer.
type exchange struct {
	h            *Handler
	w            http.ResponseWriter
	r            *http.Request
	principal    func() string // nil: nobody is known
	received     time.Time
	inFront      bool // there is a next handler
	begun        bool // an answer, or a stream
	conn         *conn
	lean         *leanConn // of a stream whose connection is to be taken over
	subscription *core.Subscription
}

// open answers the request, or opens its stream.
func (x *exchange) open() verdict {
	var body []byte
	peeked := x.inFront && !slices.Contains(x.r.Header[headerMethod], core.MethodListen)
	if peeked {
		// Only the body tells whose it is: an older client, or a broken one.
		var v verdict
		if body, v = x.peek(); v != undecided {
			return v
		}
	}
	if err := x.h.guard.check(x.r); err != nil {
		return x.refuse(nil, core.Meta{}, err)
	}
	if err := checkContentType(x.r.Header); err != nil {
		return x.refuse(nil, core.Meta{}, err)
	}
	if !peeked {
		var err error
		if body, err = x.readBody(); err != nil {
			return x.refuse(nil, core.Meta{}, err)
		}
	}
	msg, err := core.ParseMessage(body, x.h.hub.Limits())
	switch {
	case err != nil:
		return x.refuse(msg, core.Meta{}, err)
	case msg.Method == core.MethodListen:
		return x.listen(msg)
	case x.cancellation(msg) && (peeked || !x.inFront):
		x.cancel(msg)
		x.begun = true
		x.w.WriteHeader(http.StatusAccepted)
		return answered
	case x.inFront:
		// The header says listen, the body says something else.
		return x.refuse(msg, core.Meta{}, headerMismatch(headerMethod))
	default:
		return x.answerAlone(msg)
	}
}

// cancellation reports whether a message cancels a request. With an id it is a
// request itself, and none that we know.
func (x *exchange) cancellation(msg *core.Message) bool {
	return msg.Method == core.MethodCancelled && !msg.ID.Valid()
}

// cancel ends the stream that a cancellation names, if it is the principal's.
// The end has no result: the client has said that it does not want one.
func (x *exchange) cancel(msg *core.Message) {
	if x.principal == nil {
		return
	}
	if id, ok := msg.Cancels(); ok {
		x.h.hub.Cancel(x.principal(), id)
	}
}

// readBody reads the body to its end, which net/http needs to notice a client
// that goes away later.
func (x *exchange) readBody() ([]byte, error) {
	if x.r.ContentLength > x.h.config.maxBody {
		return nil, errTooLarge()
	}
	body, err := io.ReadAll(io.LimitReader(x.r.Body, x.h.config.maxBody+1))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge), int64(len(body)) > x.h.config.maxBody:
		return nil, errTooLarge()
	case err != nil:
		return nil, &core.Error{
			Code: core.CodeParseError, Message: "the body could not be read", Refusal: core.RefusedParse, Err: err,
		}
	}
	return body, nil
}

// peek reads a body whose owner is not known yet. Where it is ours, or cannot be
// told, the verdict is undecided. Where it is not, the request gets its body back.
func (x *exchange) peek() (body []byte, v verdict) {
	limit := x.h.config.maxBody
	body, err := io.ReadAll(io.LimitReader(x.r.Body, limit+1))
	if err == nil && int64(len(body)) <= limit {
		msg, err := core.ParseMessage(body, x.h.hub.Limits())
		switch {
		case errors.Is(err, core.ErrDuplicateMember):
			return body, undecided // of two methods, the next handler may see the other one
		case msg == nil:
		case msg.Method == core.MethodListen, err == nil && x.cancellation(msg) && x.speaksOurs():
			return body, undecided
		}
	}
	x.putBack(body, err)
	return nil, passOn
}

// speaksOurs reports whether the headers name the protocol version that has listen.
// Over HTTP that version has no other use for a cancellation: a client ends a request
// by closing it. In older ones a cancellation is about the next handler's requests.
func (x *exchange) speaksOurs() bool {
	return headerIs(x.r.Header, headerVersion, core.ProtocolVersion)
}

// putBack makes the request's body what it was before its beginning was read,
// with an error if that ended the reading.
func (x *exchange) putBack(beginning []byte, err error) {
	x.r.Body = restored{io.MultiReader(bytes.NewReader(beginning), failing{err}, x.r.Body), x.r.Body}
}

// restored is a body whose beginning was read and put back.
type restored struct {
	io.Reader
	io.Closer
}

// failing is a reader that fails with an error, or is empty without one.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}
