//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/core"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// asProgram in the environment makes the test binary the program itself.
const asProgram = "QUICKSTART_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// patience bounds waiting for something to happen. It is never waited for in full
// unless a test fails.
const patience = 30 * time.Second

// service is a running quickstart.
type service struct {
	t      *testing.T
	dir    string
	url    string
	usage  string
	client *http.Client
	stop   func() // stops the service and waits for it
}

// serve runs the program in this process, on a directory with the given files.
func serve(t *testing.T, files ...string) *service {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &service{t: t, dir: dir, client: &http.Client{Transport: &http.Transport{}}}
	for _, name := range files {
		s.write(name, "new")
	}
	ctx, cancel := context.WithCancel(t.Context())
	out := make(chan string, 1)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, dir, "127.0.0.1:0", sendWriter(out)) }()
	s.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		ended <- nil
		s.client.CloseIdleConnections()
	}
	t.Cleanup(s.stop)
	for s.url == "" {
		select {
		case text := <-out:
			s.usage += text
			if strings.HasSuffix(s.usage, "Ctrl-C ends.\n") {
				s.url = urlOf(s.usage)
			}
		case err := <-ended:
			ended <- err
			t.Fatalf("ended: %v", err)
		}
	}
	return s
}

// sendWriter sends all that is written.
type sendWriter chan<- string

func (w sendWriter) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

func urlOf(usage string) string {
	_, rest, _ := strings.Cut(usage, " at ")
	url, _, _ := strings.Cut(rest, "\n")
	return url
}

func curlOf(usage string) string {
	_, rest, _ := strings.Cut(usage, "\n\ncurl")
	command, _, _ := strings.Cut(rest, "\n\n")
	return "curl" + command
}

func (s *service) abs(name string) string { return filepath.Join(s.dir, name) }
func (s *service) uri(name string) string { return "file://" + s.dir + "/" + name }

func (s *service) write(name, data string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(s.abs(name)), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.abs(name), []byte(data), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func (s *service) rename(from, to string) {
	s.t.Helper()
	if err := os.Rename(s.abs(from), s.abs(to)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *service) remove(name string) {
	s.t.Helper()
	if err := os.RemoveAll(s.abs(name)); err != nil {
		s.t.Fatal(err)
	}
}

// message is a JSON-RPC message.
type message struct {
	Method string
	Params struct {
		URI           string
		Notifications json.RawMessage
	}
	Result *struct {
		ResultType   string
		Capabilities struct{ Resources map[string]bool }
		Resources    []struct{ URI, Name string }
		Contents     []struct {
			Text *string
			Blob []byte
		}
	}
	Error *struct {
		Code    int
		Message string
	}
}

// post sends a request and returns the response; params are without _meta.
func (s *service) post(ctx context.Context, method, params string) *http.Response {
	s.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}%s}}`,
		method, params)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("MCP-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", method)
	if method == "resources/read" {
		var read struct{ URI string }
		if err := json.Unmarshal([]byte("{"+strings.TrimPrefix(params, ",")+"}"), &read); err != nil {
			s.t.Fatal(err)
		}
		req.Header.Set("Mcp-Name", read.URI)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp
}

// call sends a request and returns the answer.
func (s *service) call(method, params string) message {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	resp := s.post(ctx, method, params)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, event, ok := bytes.Cut(data, []byte("data: ")); ok {
		data = event
	}
	var msg message
	if err := json.Unmarshal(data, &msg); err != nil {
		s.t.Fatalf("%v in %s", err, data)
	}
	return msg
}

func (s *service) names() []string {
	s.t.Helper()
	msg := s.call("resources/list", "")
	if msg.Result == nil {
		s.t.Fatalf("no list: %+v", msg.Error)
	}
	var names []string
	for _, r := range msg.Result.Resources {
		names = append(names, r.Name)
	}
	return names
}

func (s *service) read(uri string) message {
	s.t.Helper()
	return s.call("resources/read", fmt.Sprintf(`,"uri":%q`, uri))
}

// stream is an open subscription.
type stream struct {
	t        *testing.T
	messages chan message // closed at the end of the stream
}

// listen opens a subscription to the list and the given files and reads its
// acknowledgment.
func (s *service) listen(names ...string) *stream {
	s.t.Helper()
	uris := []string{}
	for _, name := range names {
		uris = append(uris, s.uri(name))
	}
	list, err := json.Marshal(uris)
	if err != nil {
		s.t.Fatal(err)
	}
	st := s.stream(`{"resourcesListChanged":true,"resourceSubscriptions":` + string(list) + `}`)
	if msg := st.next(); msg.Method != core.MethodAcknowledged {
		s.t.Fatalf("the first message is %+v", msg)
	}
	return st
}

// stream sends a listen request with the given filter and reads what comes.
func (s *service) stream(filter string) *stream {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	s.t.Cleanup(cancel)
	resp := s.post(ctx, "subscriptions/listen", `,"notifications":`+filter) //nolint:bodyclose // the goroutine closes it
	st := &stream{t: s.t, messages: make(chan message, 1000)}
	go func() {
		defer func() { _ = resp.Body.Close() }()
		st.run(resp)
	}()
	return st
}

func (st *stream) run(resp *http.Response) {
	defer close(st.messages)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok && resp.StatusCode == http.StatusOK {
			continue
		}
		if !ok {
			data = lines.Text() // the error that is the whole answer
		}
		var msg message
		if err := json.Unmarshal([]byte(data), &msg); err != nil {
			st.t.Errorf("%v in %q", err, data)
		}
		st.messages <- msg
	}
}

func (st *stream) next() message {
	st.t.Helper()
	select {
	case msg, ok := <-st.messages:
		if !ok {
			st.t.Fatal("the stream has ended")
		}
		return msg
	case <-time.After(patience):
		st.t.Fatal("no message came")
	}
	panic("unreachable")
}

// endsWithResult reads the stream to its end.
func (st *stream) endsWithResult() {
	st.t.Helper()
	var last message
	timeout := time.After(patience)
	for {
		select {
		case msg, ok := <-st.messages:
			if ok {
				last = msg
				continue
			}
		case <-timeout:
			st.t.Error("the stream does not end")
		}
		break
	}
	if last.Result == nil || last.Result.ResultType != "complete" {
		st.t.Errorf("the stream ended with %+v", last)
	}
}

// updated waits for the update of a resource.
func (st *stream) updated(uri string) {
	st.t.Helper()
	for {
		if msg := st.next(); msg.Method == core.MethodResourceUpdated && msg.Params.URI == uri {
			return
		}
	}
}

// listUntil waits for changes of the list until it has the given names.
func (st *stream) listUntil(s *service, want ...string) {
	st.t.Helper()
	for {
		if msg := st.next(); msg.Method == core.MethodResourcesListChanged && slices.Equal(s.names(), want) {
			return
		}
	}
}

func TestDiscoverAgreesWithAcknowledgment(t *testing.T) {
	t.Parallel()
	s := serve(t, "file")
	msg := s.call("server/discover", "")
	if msg.Result == nil || !msg.Result.Capabilities.Resources["listChanged"] || !msg.Result.Capabilities.Resources["subscribe"] {
		t.Fatalf("discover: %+v", msg.Result)
	}
	st := s.stream(`{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["` +
		s.uri("file") + `"]}`)
	want := `{"resourcesListChanged":true,"resourceSubscriptions":["` + s.uri("file") + `"]}`
	if got := string(st.next().Params.Notifications); got != want {
		t.Errorf("honored: got %s, want %s", got, want)
	}
}

// Clients of older revisions can list and read, and are promised no more.
func TestOldClients(t *testing.T) {
	t.Parallel()
	s := serve(t, "file")
	resp, err := s.client.Do(oldRequest(t, s.url))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(data, []byte(`"resources":{}`)) {
		t.Errorf("initialize: %s", data)
	}
}

func oldRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	return req
}

func TestEdit(t *testing.T) {
	t.Parallel()
	s := serve(t, "file", "sub/file", "other")
	st := s.listen("file", "sub/file")
	for _, name := range []string{"file", "sub/file", "file"} {
		s.write(name, "edited "+name)
		st.updated(s.uri(name))
	}
	if msg := s.read(s.uri("file")); msg.Result == nil || *msg.Result.Contents[0].Text != "edited file" {
		t.Errorf("read: %+v", msg)
	}
	// What nobody listens to is not reported; the edit after it tells.
	s.write("other", "edited")
	s.write("new", "")
	for {
		msg := st.next()
		if msg.Params.URI == s.uri("other") {
			t.Error("an update that was not asked for")
		}
		if msg.Method == core.MethodResourcesListChanged {
			break
		}
	}
}

func TestSaveByRename(t *testing.T) {
	t.Parallel()
	s := serve(t, "file")
	st := s.listen("file")
	for i := range 3 {
		s.write("file.tmp", strconv.Itoa(i))
		s.rename("file.tmp", "file")
		for {
			st.updated(s.uri("file"))
			if msg := s.read(s.uri("file")); msg.Result != nil && *msg.Result.Contents[0].Text == strconv.Itoa(i) {
				break
			}
		}
	}
}

func TestCreateRenameRemove(t *testing.T) {
	t.Parallel()
	s := serve(t, "file")
	st := s.listen()
	s.write("new", "")
	st.listUntil(s, "file", "new")
	s.rename("new", "newer")
	st.listUntil(s, "file", "newer")
	s.remove("newer")
	st.listUntil(s, "file")
	s.write("a/b/c", "")
	st.listUntil(s, "a/b/c", "file")
	s.remove("a")
	st.listUntil(s, "file")
}

func TestHundredSavesInASecond(t *testing.T) {
	t.Parallel()
	s := serve(t, "file")
	st := s.listen("file")
	for i := range 100 {
		s.write("file", strconv.Itoa(i))
	}
	// Whoever reads after each update has the last state in the end.
	for {
		st.updated(s.uri("file"))
		if msg := s.read(s.uri("file")); *msg.Result.Contents[0].Text == "99" {
			return
		}
	}
}

func TestDirectoryRemoved(t *testing.T) {
	t.Parallel()
	s := serve(t, "sub/file", "file")
	st := s.listen("sub/file", "file")
	s.remove("sub")
	st.updated(s.uri("sub/file"))
	if msg := s.read(s.uri("sub/file")); msg.Error == nil || msg.Error.Code != core.CodeInvalidParams {
		t.Errorf("read: %+v", msg)
	}
	s.remove(".")
	st.updated(s.uri("file"))
	s.stop()
	st.endsWithResult()
}

func TestWholeDirectoryRemovedEmptiesList(t *testing.T) {
	t.Parallel()
	s := serve(t, "sub/file", "file")
	st := s.listen()
	s.remove(".")
	st.listUntil(s)
}

func TestNothingOutsideTheDirectory(t *testing.T) {
	t.Parallel()
	s := serve(t, "file", ".env", "sub/file")
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	st := s.listen()
	for name, target := range map[string]string{"link": outside, "dir": filepath.Dir(outside), "inner": ".env"} {
		if err := os.Symlink(target, s.abs(name)); err != nil {
			t.Fatal(err)
		}
	}
	s.write("last", "")
	st.listUntil(s, "file", "last", "sub/file")

	for _, uri := range []string{
		"file://" + outside,
		s.uri("link"),
		s.uri("dir/secret"),
		s.uri("inner"),
		s.uri(".env"),
		s.uri("nothing"),
		s.uri("sub"),
		s.uri("sub/../file"),
		s.uri("%66ile"),
		s.uri("sub%2Ffile"),
		s.uri("%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd"),
		s.uri("../../../../../../etc/passwd"),
		"file://localhost" + s.dir + "/file",
		"file:///etc/passwd",
	} {
		if msg := s.read(uri); msg.Error == nil || msg.Error.Code != core.CodeInvalidParams {
			t.Errorf("read of %s: %+v", uri, msg)
		}
		msg := s.call("subscriptions/listen", fmt.Sprintf(`,"notifications":{"resourceSubscriptions":[%q]}`, uri))
		if msg.Error == nil || msg.Error.Code != core.CodeInvalidParams || msg.Error.Message != "resource not found" {
			t.Errorf("listen to %s: %+v", uri, msg)
		}
	}
}

func TestForeignOrigin(t *testing.T) {
	t.Parallel()
	s := serve(t, "file")
	for _, method := range []string{"initialize", "subscriptions/listen"} {
		req := oldRequest(t, s.url)
		req.Header.Set("Origin", "https://evil.example")
		req.Header.Set("Mcp-Method", method)
		resp, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", method, resp.Status)
		}
	}
}

func TestContents(t *testing.T) {
	t.Parallel()
	s := serve(t)
	st := s.listen()
	s.write("empty", "")
	s.write("binary", "\xff\x00")
	s.write("text.txt", "ü")
	st.listUntil(s, "binary", "empty", "text.txt")
	for name, want := range map[string]string{"empty": "", "binary": "\xff\x00", "text.txt": "ü"} {
		msg := s.read(s.uri(name))
		if msg.Result == nil || len(msg.Result.Contents) != 1 {
			t.Fatalf("%s: %+v", name, msg)
		}
		c := msg.Result.Contents[0]
		switch {
		case c.Text != nil && *c.Text == want && name == "text.txt":
		case c.Blob != nil && string(c.Blob) == want:
		default:
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// The official SDK's client: what it subscribes to, it hears of.
func TestOfficialClient(t *testing.T) {
	t.Parallel()
	s := serve(t, "file")
	updates, lists := make(chan string, 100), make(chan struct{}, 100)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) {
			updates <- req.Params.URI
		},
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { lists <- struct{}{} },
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: s.url, HTTPClient: s.client}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	if err := session.Subscribe(ctx, &mcp.SubscribeParams{URI: s.uri("file")}); err != nil {
		t.Fatal(err)
	}
	s.write("file", "edited")
	select {
	case uri := <-updates:
		if uri != s.uri("file") {
			t.Errorf("update of %s", uri)
		}
	case <-ctx.Done():
		t.Fatal("no update")
	}
	s.write("new", "")
	select {
	case <-lists:
	case <-ctx.Done():
		t.Fatal("no change of the list")
	}
	list, err := session.ListResources(ctx, nil)
	if err != nil || len(list.Resources) != 2 {
		t.Errorf("list: %v, %v", list, err)
	}
	read, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: s.uri("file")})
	if err != nil || read.Contents[0].Text != "edited" {
		t.Errorf("read: %v, %v", read, err)
	}
}

func TestShutdownEndsEveryStreamWithItsResult(t *testing.T) {
	t.Parallel()
	s := serve(t, "file")
	var streams []*stream
	for range 20 {
		streams = append(streams, s.listen("file"))
	}
	s.stop()
	for _, st := range streams {
		st.endsWithResult()
	}
}

func TestRunFails(t *testing.T) {
	t.Parallel()
	if err := run(t.Context(), filepath.Join(t.TempDir(), "nothing"), "127.0.0.1:0", io.Discard); err == nil {
		t.Error("no error for a directory that is not there")
	}
	if err := run(t.Context(), t.TempDir(), "127.0.0.1:99999", io.Discard); err == nil {
		t.Error("no error for an impossible address")
	}
}

func TestUsageOfEmptyDirectory(t *testing.T) {
	t.Parallel()
	s := serve(t)
	if strings.Contains(s.usage, "resourceSubscriptions") || !strings.Contains(s.usage, "resourcesListChanged") {
		t.Error(s.usage)
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"", "a b", "it's", "''", `"$(x)" \` + "`y`\n", "!#&;|<>*?~{}"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+quote(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q became %q, %v", word, out, err)
		}
	}
}

// The program as a newcomer runs it, in a process of its own: the command that it
// prints, an edit, and Ctrl-C.
func TestPrintedCommand(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	for name, test := range map[string]struct {
		file   string
		signal os.Signal
	}{
		"plain":  {"file", os.Interrupt},
		"quotes": {`it's a "$(touch pwned)" %41 & ` + "`x`" + ` \ {}<ü>;` + "\n!", os.Interrupt},
		"term":   {"file", syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testPrintedCommand(t, test.file, test.signal)
		})
	}
}

func testPrintedCommand(t *testing.T, name string, signal os.Signal) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dir := filepath.Join(t.TempDir(), name)
	file := filepath.Join(dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}

	server := exec.CommandContext(ctx, os.Args[0], "-dir", dir, "-addr", "127.0.0.1:0")
	server.Env = append(os.Environ(), asProgram+"=1")
	server.Stderr = os.Stderr
	out := start(t, server)
	var usage strings.Builder
	for !strings.HasSuffix(usage.String(), "Ctrl-C ends.\n") {
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatalf("%v after %s", err, usage.String())
		}
		usage.WriteString(line)
	}

	shell := exec.CommandContext(ctx, "bash", "-c", "exec "+curlOf(usage.String()))
	shell.Dir = t.TempDir()
	shell.Stderr = os.Stderr
	events := start(t, shell)
	expect := func(want string) {
		t.Helper()
		for {
			line, err := events.ReadString('\n')
			if strings.Contains(line, want) {
				return
			}
			if err != nil {
				t.Fatalf("%s did not come: %v", want, err)
			}
		}
	}
	expect(`"notifications/subscriptions/acknowledged"`)
	if err := os.WriteFile(file, []byte("edited"), 0o644); err != nil {
		t.Fatal(err)
	}
	expect(`"notifications/resources/updated"`)
	if err := os.WriteFile(filepath.Join(dir, "another"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	expect(`"notifications/resources/list_changed"`)
	if err := server.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	expect(`"resultType":"complete"`)
	if rest, err := io.ReadAll(events); err != nil || strings.Contains(string(rest), "data:") {
		t.Errorf("after the result: %q, %v", rest, err)
	}
	if err := errors.Join(shell.Wait(), server.Wait()); err != nil {
		t.Errorf("exit: %v", err)
	}
	if left, err := os.ReadDir(shell.Dir); err != nil || len(left) > 0 {
		t.Errorf("the shell ran part of a name: %v, %v", left, err)
	}
}

// start starts a command and returns its standard output.
func start(t *testing.T, cmd *exec.Cmd) *bufio.Reader {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return bufio.NewReader(out)
}
