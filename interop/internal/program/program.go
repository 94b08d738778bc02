// A running examples/everything, for tests with other people's software.

// Package program runs examples/everything as a process of its own: started,
// ended by signals, started again at the same address.
package program

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Variable names the built program. Tests that need it are skipped without it: the
// scripts in .ci/interop set it.
const Variable = "MCPLISTEN_EVERYTHING"

// Hang is when a test that waits in vain is given up.
const Hang = 20 * time.Second

// Frameworks are what the program can be mounted on.
var Frameworks = []string{"nethttp", "chi", "echo", "gin"}

// Program is one process after another at one address. It is not safe for
// concurrent use.
type Program struct {
	URL   string // of the MCP endpoint
	Addr  string // of its listener
	Admin string // URL of the admin endpoints

	tb     testing.TB
	flags  []string
	cmd    *exec.Cmd
	exited chan error
}

// Start starts the program with the flags, on a port that the system picks. It is
// killed when the test ends.
func Start(tb testing.TB, flags ...string) *Program {
	tb.Helper()
	if os.Getenv(Variable) == "" {
		tb.Skipf("%s names no program: see .ci/interop", Variable)
	}
	p := &Program{Addr: "127.0.0.1:0", tb: tb, flags: flags}
	tb.Cleanup(p.Kill)
	p.Restart()
	return p
}

// Restart starts the program again, at the address that it had.
func (p *Program) Restart() {
	p.tb.Helper()
	p.cmd = exec.CommandContext(p.tb.Context(), os.Getenv(Variable), append([]string{"-addr", p.Addr, "-admin", "127.0.0.1:0"}, p.flags...)...)
	p.cmd.Stderr = os.Stderr
	out, err := Spawn(p.cmd)
	if err != nil {
		p.tb.Fatalf("everything: %v", err)
	}
	lines := bufio.NewScanner(out)
	line := func(prefix string) string {
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), prefix) {
			p.tb.Fatalf("everything says %q, want %q", lines.Text(), prefix)
		}
		return strings.TrimPrefix(lines.Text(), prefix)
	}
	p.URL, p.Admin = line("listening on "), line("admin on ")
	p.exited = make(chan error, 1)
	go func(cmd *exec.Cmd, exited chan<- error) { exited <- cmd.Wait() }(p.cmd, p.exited)
	u, err := url.Parse(p.URL)
	if err != nil {
		p.tb.Fatal(err)
	}
	p.Addr = u.Host
}

// Spawn starts a command that does not outlive this process, whatever ends it, and
// returns its standard output.
func Spawn(cmd *exec.Cmd) (io.Reader, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	cmd.Stdout = w
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return r, cmd.Start()
}

// Terminate ends the program with SIGTERM and fails the test if its exit is not a
// clean one.
func (p *Program) Terminate() {
	p.tb.Helper()
	p.Signal(syscall.SIGTERM)
	p.Exited()
}

// Signal sends the program a signal.
func (p *Program) Signal(sig os.Signal) {
	p.tb.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.tb.Fatalf("%v: %v", sig, err)
	}
}

// Exited waits for the end of the program, which is to be a clean one.
func (p *Program) Exited() {
	p.tb.Helper()
	select {
	case err := <-p.exited:
		p.exited <- err
		if err != nil {
			p.tb.Errorf("everything ended with %v", err)
		}
	case <-time.After(Hang):
		p.tb.Fatal("everything does not end")
	}
}

// Kill ends the program at once, if it still runs.
func (p *Program) Kill() {
	if p.exited == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	p.exited <- <-p.exited
}

// Publish publishes what the query says: see the program's admin endpoint.
func (p *Program) Publish(query string) {
	p.tb.Helper()
	if _, err := p.admin(http.MethodPost, "/publish?"+query, http.StatusNoContent); err != nil {
		p.tb.Fatal(err)
	}
}

// Stats is what the program tells of itself.
type Stats struct {
	Streams int
	Closed  map[string]int // ended streams by reason
}

// Stats asks the program.
func (p *Program) Stats() Stats {
	p.tb.Helper()
	body, err := p.admin(http.MethodGet, "/stats", http.StatusOK)
	var s Stats
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	if err != nil {
		p.tb.Fatal(err)
	}
	return s
}

// Until asks the program until what it tells is as it should be.
func (p *Program) Until(what string, is func(Stats) bool) {
	p.tb.Helper()
	for end := time.Now().Add(Hang); ; {
		s := p.Stats()
		if is(s) {
			return
		}
		if time.Now().After(end) {
			p.tb.Fatalf("%s: still %+v", what, s)
		}
	}
}

func (p *Program) admin(method, path string, status int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Hang)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, p.Admin+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != status {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, body)
	}
	return body, err
}

// Certificate makes a certificate for 127.0.0.1 and returns its files and a pool
// that trusts it.
func Certificate(tb testing.TB) (certFile, keyFile string, trusting *x509.CertPool) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	cert, certErr := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	der, keyErr := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(certErr, keyErr); err != nil {
		tb.Fatal(err)
	}
	dir := tb.TempDir()
	write := func(name, kind string, der []byte) ([]byte, string) {
		file, text := filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		if err := os.WriteFile(file, text, 0o600); err != nil {
			tb.Fatal(err)
		}
		return text, file
	}
	text, certFile := write("cert.pem", "CERTIFICATE", cert)
	_, keyFile = write("key.pem", "PRIVATE KEY", der)
	trusting = x509.NewCertPool()
	trusting.AppendCertsFromPEM(text)
	return certFile, keyFile, trusting
}
