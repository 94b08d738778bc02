// Flags: every switch of the program.

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

// settings are the values of the flags.
type settings struct {
	addr, admin string
	framework   string
	middleware  string

	keepAlive, writeTimeout, maxLifetime, drain time.Duration
	maxStreams, maxStreamsPerPrincipal          int

	serverReadTimeout, serverWriteTimeout time.Duration
	h2c, lean                             bool
	tlsCert, tlsKey                       string

	tokens  tokens
	private private
	origins list
	hosts   list

	otlp   string
	broker string
}

// parse returns the settings that args ask for. What is wrong with them, and the
// usage, are written to out as well.
func parse(args []string, out io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("everything", flag.ContinueOnError)
	f.SetOutput(out)

	f.StringVar(&s.addr, "addr", "127.0.0.1:8080", "`address` to listen on; port 0 picks one")
	f.StringVar(&s.admin, "admin", "127.0.0.1:0", "`address` of the admin endpoints")
	f.StringVar(&s.framework, "framework", "nethttp", "what to mount on: "+strings.Join(frameworkNames(), ", "))
	f.StringVar(&s.middleware, "middleware", "none", "what to put in front: "+strings.Join(middlewares, ", "))

	f.DurationVar(&s.keepAlive, "keepalive", core.DefaultKeepAlive, "silence before a keep-alive; negative for none")
	f.DurationVar(&s.writeTimeout, "write-timeout", mcphttp.DefaultWriteTimeout, "how long one write to a client may take")
	f.DurationVar(&s.maxLifetime, "max-lifetime", 0, "age, ±10 %, at which a stream is ended; 0 for none")
	f.DurationVar(&s.drain, "drain", 0, "time over which SIGTERM spreads the ends of the streams")
	f.IntVar(&s.maxStreams, "max-streams", core.DefaultMaxStreams, "most streams in all")
	f.IntVar(&s.maxStreamsPerPrincipal, "max-streams-per-principal", 0, "most streams of one principal; 0 for no limit")

	f.DurationVar(&s.serverReadTimeout, "server-read-timeout", 0, "http.Server's ReadTimeout; 0 for none")
	f.DurationVar(&s.serverWriteTimeout, "server-write-timeout", 0, "http.Server's WriteTimeout; 0 for none")
	f.BoolVar(&s.lean, "lean", false, "take the connections of HTTP/1.1 streams over from net/http")
	f.BoolVar(&s.h2c, "h2c", false, "HTTP/2 without TLS, beside HTTP/1.1")
	f.StringVar(&s.tlsCert, "tls-cert", "", "`file` with the certificate: TLS, with HTTP/2")
	f.StringVar(&s.tlsKey, "tls-key", "", "`file` with the certificate's key")

	f.Var(&s.tokens, "tokens", "bearer tokens and their principals, as `alice=s1,bob=s2,carol=s3:2s`;\n"+
		"a duration after the token is how long it lives, from its first listen on")
	f.Var(&s.private, "private", "a principal and the prefix of URIs that are theirs alone, as `bob:file:///private/`")
	f.Var(&s.origins, "origins", "origins whose web pages may call, comma-separated; none: loopback ones")
	f.Var(&s.hosts, "hosts", "host names that may be called by, comma-separated, beside loopback ones")

	f.StringVar(&s.broker, "broker", "", "`URL` of a broker between several nodes, nats://… or redis://…")
	f.StringVar(&s.otlp, "otlp", "", "`URL` of an OTLP/HTTP endpoint for traces and metrics")

	// Package flag has already reported its own errors, to out.
	if err := f.Parse(args); err != nil {
		return s, err
	}
	err := s.validate(f.Args())
	if err != nil {
		fmt.Fprintln(out, "everything:", err)
	}
	return s, err
}

func (s *settings) validate(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case frameworks[s.framework] == nil:
		return fmt.Errorf("no framework %q", s.framework)
	case !slices.Contains(middlewares, s.middleware):
		return fmt.Errorf("no middleware %q", s.middleware)
	case (s.tlsCert == "") != (s.tlsKey == ""):
		return errors.New("-tls-cert and -tls-key go together")
	case s.h2c && s.tlsCert != "":
		return errors.New("-h2c is HTTP/2 without TLS")
	}
	return nil
}

// list is a flag of comma-separated values.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

// Set sets the list.
func (l *list) Set(value string) error {
	*l = nil
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item != "" {
			*l = append(*l, item)
		}
	}
	return nil
}
