// Listening: printing what a server says, until somebody ends it.

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"time"

	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
)

const listenUsage = `Prints what changes at an MCP server, and comes back when a stream ends.

  mcplisten listen URL [flags]
  mcplisten listen --command 'COMMAND' [flags]

Without --tools, --prompts, --resources and --resource it listens to the three
lists. What was missed between two streams is not replayed: it then says that
everything is to be listed again.

`

type listening struct {
	access
	filter   core.Filter
	uris     list
	command  string
	asJSON   bool
	once     bool
	noFollow bool
	ack      time.Duration
	alive    time.Duration
}

func runListen(ctx context.Context, args []string, out, errs io.Writer) int {
	var l listening
	flags := flag.NewFlagSet("listen", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), listenUsage)
		flags.PrintDefaults()
	}
	flags.BoolVar(&l.filter.ToolsListChanged, "tools", false, "listen to the list of tools")
	flags.BoolVar(&l.filter.PromptsListChanged, "prompts", false, "listen to the list of prompts")
	flags.BoolVar(&l.filter.ResourcesListChanged, "resources", false, "listen to the list of resources")
	flags.Var(&l.uris, "resource", "`URI` of a resource to listen to; may be repeated")
	flags.StringVar(&l.command, "command", "", "run this `command` and speak to its standard streams")
	flags.BoolVar(&l.asJSON, "json", false, "print JSON, one object a line")
	flags.BoolVar(&l.once, "once", false, "end after the first change")
	flags.BoolVar(&l.noFollow, "no-follow", false, "do not come back when the stream ends")
	flags.DurationVar(&l.ack, "ack-timeout", client.DefaultAckTimeout, "how long to wait for the acknowledgment")
	flags.DurationVar(&l.alive, "keep-alive", client.DefaultKeepAlive, "the server's keep-alive period: three that are missed count as a dead connection; 0 for a server without")
	l.flags(flags)
	url, code := parse(flags, args, out, errs)
	if code >= 0 {
		return code
	}
	l.filter.ResourceSubscriptions = l.uris
	if l.filter.Empty() {
		l.filter.ToolsListChanged, l.filter.PromptsListChanged, l.filter.ResourcesListChanged = true, true, true
	}
	code, err := l.run(ctx, url, out)
	if err != nil {
		fmt.Fprintf(errs, "mcplisten listen: %v\n", err)
	}
	return code
}

// endpoint returns where to listen.
func (l *listening) endpoint(url string) (client.Endpoint, error) {
	switch {
	case url == "" && l.command == "":
		return nil, errors.New("a URL or --command is needed; try --help")
	case url != "" && l.command != "":
		return nil, errors.New("a URL or --command, not both")
	case url != "":
		return client.URL(url), nil
	}
	words, err := splitCommand(l.command)
	if err != nil {
		return nil, err
	}
	return client.Command(func() *exec.Cmd {
		cmd := exec.Command(words[0], words[1:]...) //nolint:gosec,noctx // to run it is what was asked for; it ends with its input
		cmd.Stderr = os.Stderr
		return cmd
	}), nil
}

// source is a stream or a follower.
type source interface {
	Notifications() iter.Seq[client.Notification]
	Honored() core.Filter
	LeftOut() core.Filter
	End() client.End
	Close()
}

func (l *listening) run(ctx context.Context, url string, out io.Writer) (int, error) {
	endpoint, err := l.endpoint(url)
	if err != nil {
		return exitUsage, err
	}
	p := &printer{out: out, asJSON: l.asJSON}
	options, err := l.options()
	if err != nil {
		return exitUsage, err
	}
	options = append(options, client.WithAckTimeout(l.ack), client.WithKeepAlive(l.alive), client.WithOnRetry(p.retry))
	// Follow says what is wrong with the arguments before anything is sent.
	var s source
	if l.noFollow {
		stream, err := client.Listen(ctx, endpoint, l.filter, options...)
		if err != nil {
			cause := client.CauseOf(err)
			if cause == client.Unusable {
				return exitUsage, err
			}
			return l.ended(p, client.End{Cause: cause, Err: err}), nil
		}
		p.acknowledged(client.Started, stream)
		if stream.Honored().Empty() { // it may hold the stream for ever, for nothing
			stream.Close()
			return l.ended(p, client.End{Cause: client.Graceful, Err: client.ErrNothingHonored}), nil
		}
		s = stream
	} else {
		follower, err := client.Follow(ctx, endpoint, l.filter, options...)
		if err != nil {
			return exitUsage, err
		}
		s = follower
	}
	defer s.Close()
	for n := range s.Notifications() {
		if n.Kind == client.Started || n.Kind == client.Relist {
			p.acknowledged(n.Kind, s)
			continue
		}
		p.notification(n)
		if l.once {
			s.Close()
			return exitOK, nil
		}
	}
	return l.ended(p, s.End()), nil
}

// ended prints the last end and returns the exit code for it.
func (l *listening) ended(p *printer, end client.End) int {
	p.end(end)
	switch {
	case end.Cause == client.Local:
		return exitOK
	case errors.Is(end.Err, client.ErrNothingHonored):
		return exitNothing
	case end.Cause == client.Refused:
		return exitRefused
	case end.Cause == client.Dropped:
		return exitDropped
	case end.Cause == client.Violation:
		return exitViolation
	default:
		return exitOK
	}
}
