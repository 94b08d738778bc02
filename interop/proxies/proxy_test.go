// A proxy of a case: nginx or HAProxy with one of the configurations in this
// folder, between a client and examples/everything.

package proxies

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/interop/internal/program"
)

// What the configurations say, and what is there instead.
const (
	front   = "127.0.0.1:8000"
	service = "127.0.0.1:8080"
	host    = "mcp.example.com"
	certPEM = "/etc/ssl/mcp.example.com.pem"
	certKey = "/etc/ssl/mcp.example.com.key"
)

// proxy is a running proxy.
type proxy struct {
	url  string
	http *http.Client
}

// start starts a proxy with a configuration, which edit may change first.
func start(t *testing.T, config, upstream string, edit func(string) string) *proxy {
	t.Helper()
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key, trusting := program.Certificate(t)
	scheme := "http"
	if strings.Contains(string(text), certPEM) {
		scheme = "https"
		both := join(t, filepath.Join(dir, "both.pem"), cert, key) // as HAProxy wants it
		if filepath.Dir(config) == "nginx" {
			both = cert
		}
		text = []byte(strings.NewReplacer(certPEM, both, certKey, key).Replace(string(text)))
	}
	if edit != nil {
		text = []byte(edit(string(text)))
	}
	addr := freeAddress(t)
	config = filepath.Join(dir, "server.conf")
	write(t, config, strings.NewReplacer(front, addr, service, upstream).Replace(string(text)))
	var cmd *exec.Cmd
	if strings.Contains(string(text), "frontend") {
		cmd = exec.Command("haproxy", "-db", "-f", config)
	} else {
		frame, err := os.ReadFile("nginx/frame.conf")
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "nginx.conf"), strings.ReplaceAll(string(frame), "DIR", dir))
		cmd = exec.Command("nginx", "-p", dir, "-e", "stderr", "-c", filepath.Join(dir, "nginx.conf"),
			"-g", "daemon off; master_process off;") // one process: this one is ended, and nothing stays
	}
	run(t, cmd, addr)
	return &proxy{url: scheme + "://" + addr + "/mcp", http: client(t, trusting)}
}

// run runs a proxy until the test's end. It returns when the proxy listens.
func run(t *testing.T, cmd *exec.Cmd, addr string) {
	t.Helper()
	var said strings.Builder
	cmd.Stderr = &said
	if _, err := program.Spawn(cmd); err != nil {
		t.Fatalf("%s: %v", cmd.Path, err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(program.Hang):
			t.Errorf("%s does not end", cmd.Path)
			_ = cmd.Process.Kill()
			<-exited
		}
		if t.Failed() && said.Len() > 0 {
			t.Logf("%s said: %s", cmd.Path, said.String())
		}
	})
	for end := time.Now().Add(program.Hang); ; {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
			return
		}
		select {
		case err := <-exited:
			exited <- err
			t.Fatalf("%s ended with %v: %s", cmd.Path, err, said.String())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not listen", cmd.Path)
		}
	}
}

// client returns a client that asks for gzip as browsers do, and does not undo it.
func client(t *testing.T, trusting *x509.CertPool) *http.Client {
	t.Helper()
	transport := &http.Transport{
		ForceAttemptHTTP2: true, DisableCompression: true,
		TLSClientConfig: &tls.Config{RootCAs: trusting, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// freeAddress returns an address that nobody listens on. Others may be faster; then
// the proxy says so.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func join(t *testing.T, file string, files ...string) string {
	t.Helper()
	var all []byte
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	write(t, file, string(all))
	return file
}
