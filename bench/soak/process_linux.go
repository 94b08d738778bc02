package main

// This file runs the other processes, which are this program again: it starts them, asks them one line at a time, and sees to it
// that they end, by their own ids, and by themselves when this process has gone, since their input ends with it.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// reply is one line that a process says.
type reply struct {
	Value json.RawMessage `json:"value,omitempty"`
	Error string          `json:"error,omitempty"`
}

// process is this program again.
type process struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
}

// start starts a process and reads its first line into first.
func start(ctx context.Context, first any, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("soak: finding this program: %w", err)
	}
	p := &process{name: args[0], cmd: exec.CommandContext(ctx, self, args...)}
	p.cmd.Stderr = os.Stderr
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 10 * time.Second // then it is killed
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("soak: %w", err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("soak: %w", err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("soak: starting %q: %w", p.name, err)
	}
	if err := p.read(first); err != nil {
		return nil, errors.Join(err, p.end())
	}
	return p, nil
}

// ask sends a command and reads the answer.
func (p *process) ask(command string, answer any) error {
	if _, err := io.WriteString(p.in, command+"\n"); err != nil {
		return fmt.Errorf("soak: asking the %s: %w", p.name, err)
	}
	return p.read(answer)
}

func (p *process) read(answer any) error {
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("soak: the %s has ended: %w", p.name, err)
	}
	var r reply
	if err := json.Unmarshal(line, &r); err != nil {
		return fmt.Errorf("soak: the %s: %w", p.name, err)
	}
	if r.Error != "" {
		return fmt.Errorf("soak: the %s: %s", p.name, r.Error)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(r.Value, answer); err != nil {
		return fmt.Errorf("soak: the %s: %w", p.name, err)
	}
	return nil
}

// end lets the process end, kills it where it does not, and says if it failed.
func (p *process) end() error {
	_ = p.in.Close() // an error says that it has ended before
	kill := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	_, _ = io.Copy(io.Discard, p.out) // what it still says is of no interest; its exit status is
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("soak: the %s: %w", p.name, err)
	}
	return nil
}

// lines calls do with each line of in, until that ends or do fails.
func lines(in io.Reader, do func(line string) error) error {
	scanner := bufio.NewScanner(in)
	for scanner.Scan() {
		if err := do(scanner.Text()); err != nil {
			return err
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("soak: %w", err)
	}
	return nil
}

// noLog is a log of what net/http says of connections that end badly, which here is the rule.
func noLog() *log.Logger { return log.New(io.Discard, "", 0) }
