// Package middlewaretest runs the endpoint behind the middleware that services
// have, in each framework: the stream is prompt, or refused with a reason before
// its first byte. What comes out is the page docs/middleware.md, which the test
// compares; `go test -update` writes it.
//
// It is a module of its own: the middlewares are nobody's dependency but its.
package middlewaretest
