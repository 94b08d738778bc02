// The program as it is run: what it prints, shows and draws.

package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output is what the program has printed.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// await waits until there is what it is called for.
func await(ctx context.Context, t *testing.T, what string, there func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !there() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func get(ctx context.Context, t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatalf("request: %v", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	return string(body)
}

func TestRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	running, stop := context.WithCancel(ctx)
	defer stop()
	out, pictures := &output{}, t.TempDir()
	done := make(chan error, 1)
	go func() {
		done <- run(running, settings{addr: "127.0.0.1:0", every: 20 * time.Millisecond, pictures: pictures}, out)
	}()
	page := regexp.MustCompile(`running spans: (\S+)`)
	await(ctx, t, "three deliveries", func() bool {
		return page.MatchString(out.String()) && strings.Count(out.String(), "notifications/resources/updated ") >= 6
	})
	open := get(ctx, t, page.FindStringSubmatch(out.String())[1]+"?zspanname=subscriptions%2Flisten&ztype=0")
	if !strings.Contains(open, "3 Requests") {
		t.Errorf("the page of running spans does not show three streams: %s", open)
	}
	if strings.Contains(out.String(), "close_reason") {
		t.Error("a stream's span is exported while the stream is open")
	}
	stop()
	if err := <-done; err != nil {
		t.Fatalf("run: %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
	if n := strings.Count(out.String(), "close_reason=shutdown graceful=true"); n != 3 {
		t.Errorf("%d streams ended with a shutdown and were exported, want 3:\n%s", n, out)
	}
	if n := strings.Count(out.String(), "the stream ended: graceful"); n != 3 {
		t.Errorf("%d agents saw a graceful end, want 3", n)
	}
	for name, want := range map[string]string{"stream.svg": "POST /mcp", "publish.svg": "PUT /stations/oslo"} {
		svg, err := os.ReadFile(filepath.Join(pictures, name))
		if err != nil || !strings.Contains(string(svg), want) {
			t.Errorf("%s shows no %s (%v)", name, want, err)
		}
	}
}
