package main

// This file runs the processes of a row, and sees to it that they end: with the context, by their own process ids, and by
// themselves when this process is gone, since their standard input ends with it.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mcplisten/mcplisten/bench/server"
)

// process is this program again, as a sub-command.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(ctx context.Context, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("compare: finding this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = &firstWords{left: 1000}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second // then it is killed
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("compare: starting %q: %w", args[0], err)
	}
	return &process{cmd: cmd, in: in, out: bufio.NewReader(out)}, nil
}

// firstWords passes on to standard error what a process says first: one of the rows logs a line for each message that it cannot
// send.
type firstWords struct{ left int }

// Write never fails.
func (f *firstWords) Write(p []byte) (int, error) {
	if f.left > 0 {
		n := min(len(p), f.left)
		_, _ = os.Stderr.Write(p[:n]) // there is nowhere to say that it failed
		if f.left -= n; f.left == 0 {
			_, _ = os.Stderr.WriteString("… (the rest of what this process says is left out)\n")
		}
	}
	return len(p), nil
}

// end asks the process to end, by closing its input.
func (p *process) end() { _ = p.in.Close() } // an error says that it has ended before

// wait waits for a process that was asked to end, and kills one that does not.
func (p *process) wait() error {
	kill := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	_, _ = io.Copy(io.Discard, p.out) // what it still says is of no interest; its exit status is
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("compare: %s: %w", p.cmd.Args[1], err)
	}
	return nil
}

// subject is one row's server process.
type subject struct {
	*process
	url   string // the MCP endpoint
	admin string
	http  *http.Client
}

func startServer(ctx context.Context, row string, streams, sendBuffer int) (*subject, error) {
	p, err := start(ctx, "server", "-row", row, "-n", strconv.Itoa(streams), "-sndbuf", strconv.Itoa(sendBuffer), "-until-eof")
	if err != nil {
		return nil, err
	}
	s := &subject{process: p, http: &http.Client{
		Timeout: time.Minute,
		// A kept connection would be two goroutines more in the server, and would be counted.
		Transport: &http.Transport{DisableKeepAlives: true},
	}}
	for range 2 {
		line, err := p.out.ReadString('\n')
		if err != nil {
			p.end()
			return nil, errors.Join(fmt.Errorf("compare: the %s server did not start: %w", row, err), p.wait())
		}
		line = strings.TrimSpace(line)
		if u, ok := strings.CutPrefix(line, "listening on "); ok {
			s.url = u
		} else if u, ok := strings.CutPrefix(line, "admin on "); ok {
			s.admin = u
		}
	}
	return s, nil
}

// The ways to ask a server for its figures.
const (
	times  = ""                // the cheapest
	counts = "?streams=1"      // with the number of streams
	memory = "?streams=1&gc=1" // and after it has collected and given free memory back
)

func (s *subject) stats(ctx context.Context, query string) (server.Stats, error) {
	var st server.Stats
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.admin+"/stats"+query, nil)
	if err != nil {
		return st, fmt.Errorf("compare: %w", err)
	}
	res, err := s.http.Do(req)
	if err != nil {
		return st, fmt.Errorf("compare: %w", err)
	}
	defer func() { _ = res.Body.Close() }() // only read from
	if res.StatusCode != http.StatusOK {
		return st, fmt.Errorf("compare: the server's figures: %s", res.Status)
	}
	if err := json.NewDecoder(res.Body).Decode(&st); err != nil {
		return st, fmt.Errorf("compare: the server's figures: %w", err)
	}
	return st, nil
}

// publishURL is the trigger of a load generator.
func (s *subject) publishURL(kind, uri string) string {
	return s.admin + "/publish?kind=" + kind + "&uri=" + uri
}

// loadTimeout is the limit for one command of a load generator: much more than any takes where nothing hangs.
const loadTimeout = "3m"

// load is one load generator process.
type load struct{ *process }

func startLoad(ctx context.Context, s *subject, streams int, args ...string) (*load, error) {
	p, err := start(ctx, append([]string{"loadgen", "-url", s.url, "-n", strconv.Itoa(streams), "-insecure", "-timeout", loadTimeout}, args...)...)
	if err != nil {
		return nil, err
	}
	return &load{p}, nil
}

// ask gives the load generator a command and returns its answer.
func ask[T any](l *load, command string) (answer T, err error) {
	if _, err := io.WriteString(l.in, command+"\n"); err != nil {
		return answer, fmt.Errorf("compare: the load generator: %w", err)
	}
	line, err := l.out.ReadBytes('\n')
	if err != nil {
		return answer, fmt.Errorf("compare: the load generator has ended: %w", err)
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return answer, fmt.Errorf("compare: the load generator: %w", err)
	}
	return answer, nil
}
