package loadgen

// This file makes the load generator a process: commands on standard input, one line of JSON on standard output for each.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/mcplisten/mcplisten/bench/internal/openfiles"
)

// Main runs the load generator until a "quit" or the end of its input. The package comment has the commands.
func Main(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	var cfg Config
	flags := flag.NewFlagSet("loadgen", flag.ContinueOnError)
	flags.StringVar(&cfg.URL, "url", "", "MCP endpoints to listen to, separated by commas: http(s)://IPv4:PORT/PATH")
	flags.StringVar(&cfg.Trigger, "trigger", "", "URL to POST to for each publish")
	flags.IntVar(&cfg.Streams, "n", 1000, "streams to open")
	flags.IntVar(&cfg.Stall, "stall", 0, "of these, how many are never read from")
	flags.StringVar(&cfg.Filter, "filter", toolsFilter, "what to listen to, as JSON; "+placeholder+" stands for the stream's number")
	flags.Func("header", "a header to send, NAME: VALUE; can be repeated", func(h string) error {
		cfg.Header = append(cfg.Header, h)
		return nil
	})
	flags.BoolVar(&cfg.HTTP2, "http2", false, "with https, HTTP/2")
	flags.BoolVar(&cfg.Insecure, "insecure", false, "with https, take any certificate")
	flags.IntVar(&cfg.Window, "window", 64, "streams being opened at a time")
	flags.DurationVar(&cfg.Timeout, "timeout", time.Minute, "limit for one command")
	flags.DurationVar(&cfg.Patience, "patience", 5*time.Second, "publish: waiting for a stream that gets nothing")
	flags.DurationVar(&cfg.Quiet, "quiet", time.Second, "burst: silence after which it is over")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := openfiles.Raise(cfg.Streams); err != nil {
		return err
	}
	c, err := New(cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	answers := json.NewEncoder(out)
	for commands := bufio.NewScanner(in); commands.Scan() && ctx.Err() == nil; {
		line := commands.Text()
		if line == "quit" {
			return nil
		}
		answer, err := c.command(ctx, line)
		if err != nil {
			return err
		}
		if err := answers.Encode(answer); err != nil {
			return fmt.Errorf("loadgen: answering: %w", err)
		}
	}
	return nil
}

var errCommand = errors.New("loadgen: want open, publish [QUERY], burst [QUERY], repeat N [QUERY], watch DURATION, requests CONNECTIONS DURATION, hangup or quit")

func (c *Client) command(ctx context.Context, line string) (any, error) {
	words := append(strings.Fields(line), "", "", "")[:3]
	switch words[0] {
	case "open":
		return c.Open(ctx), nil
	case "publish":
		return c.Publish(ctx, words[1]), nil
	case "burst":
		return c.Burst(ctx, words[1]), nil
	case "repeat":
		n, err := strconv.Atoi(words[1])
		if err != nil || n < 1 {
			return nil, errCommand
		}
		return c.Repeat(ctx, n, words[2]), nil
	case "watch":
		long, err := time.ParseDuration(words[1])
		if err != nil {
			return nil, errCommand
		}
		return c.Watch(ctx, long), nil
	case "requests":
		n, err := strconv.Atoi(words[1])
		if err != nil || n < 1 {
			return nil, errCommand
		}
		long, err := time.ParseDuration(words[2])
		if err != nil {
			return nil, errCommand
		}
		return c.Requests(ctx, n, long), nil
	case "hangup":
		c.Hangup()
		return nil, nil //nolint:nilnil // null is the answer
	}
	return nil, errCommand
}
