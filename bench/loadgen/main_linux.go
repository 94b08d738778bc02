package loadgen

// This file makes the load generator a process: commands on standard input, one line of JSON on standard output for each.

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/mcplisten/mcplisten/bench/internal/openfiles"
)

// Main runs the load generator until a "quit" or the end of its input. The commands are "open" (answered with an Opened),
// "publish" (a Delivered) and "hangup" (null).
func Main(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	var cfg Config
	flags := flag.NewFlagSet("loadgen", flag.ContinueOnError)
	flags.StringVar(&cfg.URL, "url", "", "MCP endpoint of the server, http://IPv4:PORT/PATH")
	flags.StringVar(&cfg.Trigger, "trigger", "", "URL to POST to for each publish")
	flags.IntVar(&cfg.Streams, "n", 1000, "streams to open")
	flags.IntVar(&cfg.Window, "window", 64, "streams being opened at a time")
	flags.DurationVar(&cfg.Timeout, "timeout", time.Minute, "limit for one open or publish")
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
		var answer any
		switch commands.Text() {
		case "open":
			answer = c.Open(ctx)
		case "publish":
			answer = c.Publish(ctx)
		case "hangup":
			c.Hangup()
		case "quit":
			return nil
		default:
			return fmt.Errorf("loadgen: %q is no command: want open, publish, hangup or quit", commands.Text())
		}
		if err := answers.Encode(answer); err != nil {
			return fmt.Errorf("loadgen: answering: %w", err)
		}
	}
	return nil
}
