// The command: its parts, its exit codes, and how it ends.

// Mcplisten listens to MCP servers from a terminal (subscriptions/listen, revision
// 2026-07-28), and examines how well they serve it.
//
//	mcplisten listen URL --tools --resource file:///a   prints what changes
//	mcplisten listen --command 'server --stdio'         the same over standard streams
//	mcplisten check URL                                 examines a server
//
// mcplisten help, and each part with --help, say the rest.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"

	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
)

// The exit codes, for scripts.
const (
	exitOK        = 0
	exitFindings  = 1
	exitUsage     = 2
	exitRefused   = 3
	exitDropped   = 4
	exitViolation = 5
	exitNothing   = 6
	exitOutput    = 7
)

const usage = `Listens to MCP servers (subscriptions/listen, revision 2026-07-28).

  mcplisten listen URL [flags]                 print what changes
  mcplisten listen --command 'COMMAND' [flags] the same, over a server's standard streams
  mcplisten check URL [flags]                  examine how a server serves listen
  mcplisten version                            print the version

A part's --help lists its flags. Ctrl-C ends.

Exit codes:
  0  all well: stopped by Ctrl-C, or --once has its change, or a graceful end
     with --no-follow; check: nothing failed
  1  check: something failed, or there is no stream although nothing was refused
  2  wrong usage
  3  the server refused
  4  the stream was dropped, the server could not be reached, or a check was
     stopped
  5  the server broke the protocol
  6  the server honors nothing of what was asked for
  7  the output could not be written
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for anything
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run does what the arguments say and returns the exit code. Once the output
// cannot be written there is no point in going on.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &checkedWriter{w: out, failed: cancel}
	code := runPart(ctx, args, w, errs)
	if err := w.err(); err != nil {
		fmt.Fprintf(errs, "mcplisten: the output could not be written: %v\n", err)
		return exitOutput
	}
	return code
}

// checkedWriter remembers that a write failed, and writes nothing more. It is safe
// for concurrent use.
type checkedWriter struct {
	mu     sync.Mutex
	w      io.Writer
	first  error
	failed func()
}

func (c *checkedWriter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first != nil {
		return 0, c.first
	}
	n, err := c.w.Write(p)
	if err != nil {
		c.first = err
		c.failed()
	}
	return n, err
}

func (c *checkedWriter) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first
}

// version returns what this was built from.
func version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "mcplisten, of an unknown version"
	}
	text := "mcplisten " + cmp.Or(build.Main.Version, "(devel)") + " " + build.GoVersion
	for _, s := range build.Settings {
		if s.Key == "vcs.revision" {
			text += " " + s.Value
		}
	}
	return text
}

// runPart is run without a look at the output.
func runPart(ctx context.Context, args []string, out, errs io.Writer) int {
	part := ""
	if len(args) > 0 {
		part, args = args[0], args[1:]
	}
	switch part {
	case "listen":
		return runListen(ctx, args, out, errs)
	case "check":
		return runCheck(ctx, args, out, errs)
	case "help", "-h", "-help", "--help":
		fmt.Fprint(out, usage)
		return exitOK
	case "version", "-version", "--version":
		fmt.Fprintln(out, version())
		return exitOK
	case "":
		fmt.Fprint(errs, usage)
	default:
		fmt.Fprintf(errs, "mcplisten: there is no %q; try mcplisten help\n", part)
	}
	return exitUsage
}

// parse parses flags that may stand before and behind the one argument. It
// returns the argument, and an exit code below zero if there is more to do.
func parse(flags *flag.FlagSet, args []string, out, errs io.Writer) (arg string, code int) {
	flags.SetOutput(io.Discard)
	rest, found := args, []string(nil)
	for {
		switch err := flags.Parse(rest); {
		case errors.Is(err, flag.ErrHelp):
			flags.SetOutput(out)
			flags.Usage()
			return "", exitOK
		case err != nil:
			fmt.Fprintf(errs, "mcplisten %s: %v; try --help\n", flags.Name(), err)
			return "", exitUsage
		}
		if flags.NArg() == 0 {
			break
		}
		found, rest = append(found, flags.Arg(0)), flags.Args()[1:]
	}
	if len(found) > 1 {
		fmt.Fprintf(errs, "mcplisten %s: one URL, not %q\n", flags.Name(), found)
		return "", exitUsage
	}
	return strings.Join(found, ""), -1
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// tokenVariable is where a token is taken from that shall not be in the list of
// processes.
const tokenVariable = "MCPLISTEN_TOKEN"

// access is how both parts get in.
type access struct {
	headers list
	token   string
}

func (a *access) flags(flags *flag.FlagSet) {
	flags.Var(&a.headers, "header", "`K:V` HTTP header to send; may be repeated")
	flags.StringVar(&a.token, "token", os.Getenv(tokenVariable), "bearer `token`; the environment's "+tokenVariable+" by default")
	flags.Lookup("token").DefValue = ""
}

// options returns the options of package client that get in.
func (a *access) options() (options []client.Option, err error) {
	err = a.each(func(name, value string) { options = append(options, client.WithHeader(name, value)) })
	return options, err
}

// usable says what is wrong with a URL or a header, as listen does, without
// sending anything.
func (a *access) usable(url string) error {
	options, err := a.options()
	if err != nil {
		return err
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err = client.Listen(ended, client.URL(url), core.Filter{}, options...); client.CauseOf(err) == client.Unusable {
		return err
	}
	return nil
}

// each calls f with each header.
func (a *access) each(f func(name, value string)) error {
	for _, h := range a.headers {
		name, value, ok := strings.Cut(h, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return fmt.Errorf("--header %q is not of the form K:V", h)
		}
		f(name, strings.TrimSpace(value))
	}
	if a.token != "" {
		f("Authorization", "Bearer "+a.token)
	}
	return nil
}
