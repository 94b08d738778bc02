// Checking: what is examined, in which order, and what comes of it.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

const checkUsage = `Examines how an MCP server serves subscriptions/listen over HTTP, and prints what
it finds with advice. It opens some fifty short streams and changes nothing.

  mcplisten check URL [flags]

  FAIL  breaks the protocol, or is unsafe
  warn  works, and will make trouble
  note  good to know
  skip  could not be examined
  ok    as it should be

`

// level is how bad a finding is.
type level string

const (
	ok   level = "ok"
	note level = "note"
	skip level = "skip"
	warn level = "warn"
	fail level = "FAIL"
)

// finding is one line of the table.
type finding struct {
	Level  level  `json:"level"`
	Check  string `json:"check"`
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"`
}

// checker examines one server.
type checker struct {
	url     string
	access  access
	http    *http.Client
	uris    []string
	timeout time.Duration // for one answer
	wait    time.Duration // for a keep-alive
	trigger string
	report  func(finding)
	worst   map[level]int
	honored core.Filter // of the full filter
	seen    bool        // the server has answered
	gone    error       // it does so no more
	limited bool        // its last answer said that it has no room
}

func runCheck(ctx context.Context, args []string, out, errs io.Writer) int {
	c := checker{worst: make(map[level]int)}
	var uris list
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), checkUsage)
		flags.PrintDefaults()
	}
	flags.Var(&uris, "resource", "`URI` of a resource that the server has; may be repeated")
	flags.DurationVar(&c.wait, "wait", 20*time.Second, "how long to wait for a keep-alive; 0 leaves that out")
	flags.DurationVar(&c.timeout, "timeout", 5*time.Second, "how long to wait for each answer")
	flags.StringVar(&c.trigger, "trigger", "", "shell `command` that makes the server publish something, to see it delivered")
	asJSON := flags.Bool("json", false, "print JSON, one object a line")
	c.access.flags(flags)
	url, code := parse(flags, args, out, errs)
	if code >= 0 {
		return code
	}
	usageError := func(text string) int {
		fmt.Fprintf(errs, "mcplisten check: %s\n", text)
		return exitUsage
	}
	c.url, c.uris = url, uris
	switch {
	case url == "":
		return usageError("a URL is needed; try --help")
	case c.timeout <= 0 || c.wait < 0:
		return usageError("--timeout must be positive and --wait not negative")
	}
	if err := c.access.usable(url); err != nil {
		return usageError(strings.TrimPrefix(err.Error(), "client: "))
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true
	defer transport.CloseIdleConnections()
	c.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	table := &table{out: out, asJSON: *asJSON}
	c.report = table.add
	err := c.run(ctx)
	table.end(c.worst)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(errs, "mcplisten check: stopped")
		return exitDropped
	case errors.Is(err, errUnreachable), errors.Is(err, errStopped):
		fmt.Fprintf(errs, "mcplisten check: %v\n", err)
		return exitDropped
	case errors.Is(err, errRefused):
		fmt.Fprintf(errs, "mcplisten check: %v\n", err)
		return exitRefused
	case err != nil:
		fmt.Fprintf(errs, "mcplisten check: %v\n", err)
		return exitFindings
	case c.worst[fail] > 0:
		return exitFindings
	default:
		return exitOK
	}
}

// say reports one finding, while the server is there.
func (c *checker) say(l level, check, advice, found string, args ...any) {
	if c.gone != nil {
		return
	}
	if len(args) > 0 {
		found = fmt.Sprintf(found, args...)
	}
	if l == ok {
		advice = ""
	}
	c.worst[l]++
	c.report(finding{l, check, safe(found), advice})
}

// run makes all checks. It fails where the server opens no stream at all.
func (c *checker) run(ctx context.Context) error {
	if err := c.checkAck(ctx); err != nil {
		return err
	}
	for _, check := range []func(context.Context){
		c.checkIDs, c.checkFilter, c.checkEmptyFilter, c.checkDiscover, c.checkEqualIDs, c.checkForeignCancel,
		c.checkMethods, c.checkMalformed, c.checkNegotiation, c.checkOrigin, c.checkWait,
	} {
		if err := ctx.Err(); err != nil {
			return err
		}
		if check(ctx); c.gone != nil {
			return c.gone
		}
	}
	return nil
}

// fullFilter asks for all that can be asked for.
func (c *checker) fullFilter() core.Filter {
	return core.Filter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: c.uris}
}

func encode(f core.Filter) string {
	encoded, _ := json.Marshal(shownFilter{f.ToolsListChanged, f.PromptsListChanged, f.ResourcesListChanged, f.ResourceSubscriptions})
	return string(encoded)
}

// runTrigger runs the command that makes the server publish.
func (c *checker) runTrigger(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", c.trigger) //nolint:gosec // to run it is what was asked for
	cmd.Stderr = os.Stderr
	return cmd.Run()
}
