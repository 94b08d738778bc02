// The program does what it says, on its own NATS server and on a Redis server where
// there is one.

package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCluster(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	if err := run(ctx, []string{"-replicas", "3", "-streams", "5"}, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	text := out.String()
	for _, want := range []string{
		"stream 1 is on A", "stream 2 is on B", "stream 3 is on C", "stream 5 is on B",
		"A publishes a change of tools", "stream 5 on B heard tools after", "stream 1 on A heard note://shared after",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the output lacks %q:\n%s", want, text)
		}
	}
	if n := strings.Count(text, " heard "); n != 15 {
		t.Errorf("%d notifications were heard, want 3 by each of 5 streams:\n%s", n, text)
	}
}

func TestWrongBroker(t *testing.T) {
	var out bytes.Buffer
	for _, url := range []string{"http://127.0.0.1", "redis://127.0.0.1/x/y", ":"} {
		if err := run(context.Background(), []string{"-broker", url}, &out); err == nil {
			t.Errorf("the broker %q was accepted", url)
		}
	}
}

func TestPasswordsAreNotPrinted(t *testing.T) {
	for url, want := range map[string]string{
		"nats://127.0.0.1:4222": "nats://127.0.0.1:4222", "redis://user:secret@host:1/0": "redis://host:1/0",
	} {
		if got := withoutPassword(url); got != want {
			t.Errorf("%s is printed as %s, want %s", url, got, want)
		}
	}
}
