// The program does what it says, on its own NATS server and on a Redis server where
// there is one.

package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
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
	if strings.Contains(text, " 0 messages ") {
		t.Errorf("each replica published, and one is said to have sent nothing:\n%s", text)
	}
	if n := strings.Count(text, " heard "); n != 15 {
		t.Errorf("%d notifications were heard, want 3 by each of 5 streams:\n%s", n, text)
	}
}

// lateEnd is a request body whose end is read only after the answer has begun, as
// on a machine that is busy.
type lateEnd struct {
	io.ReadCloser
	left  int64
	begun <-chan struct{}
}

func (b *lateEnd) Read(p []byte) (int, error) {
	if b.left == 0 {
		<-b.begun
		return b.ReadCloser.Read(p)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	if b.left -= int64(n); err == io.EOF {
		err = nil // it comes with the next Read
	}
	return n, err
}

// A stream goes on where the replica answers before the proxy has read the end of
// the request.
func TestProxyKeepsStreams(t *testing.T) {
	goOn, begun := make(chan struct{}), make(chan struct{})
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
		<-goOn
		_, _ = io.WriteString(w, " second")
	}))
	defer back.Close()
	to, err := url.Parse(back.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &roundRobin{replicas: []*replica{{url: to}}}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = &lateEnd{r.Body, r.ContentLength, begun}
		proxy.ServeHTTP(w, r)
	}))
	defer front.Close()

	resp, err := http.Post(front.URL, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := make([]byte, len("first"))
	if _, err := io.ReadFull(resp.Body, got); err != nil {
		t.Fatal(err)
	}
	close(begun)
	time.AfterFunc(50*time.Millisecond, func() { close(goOn) }) // time for the proxy to do it wrong
	if rest, err := io.ReadAll(resp.Body); string(rest) != " second" || err != nil {
		t.Errorf("the stream went on with %q, %v", rest, err)
	}
	http.DefaultClient.CloseIdleConnections()
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
