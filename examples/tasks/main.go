// Tasks shows the tasks extension: a service whose jobs take a while, and clients
// that listen to their own.
//
//	go run ./examples/tasks
//	curl -H 'Authorization: Bearer alice-secret' -X POST http://127.0.0.1:8080/jobs
//
// starts a job and prints the task that stands for it, with a curl command that
// listens to it. Whoever has another token, bob-secret, is refused that, as for a
// task that does not exist.
//
// Look at run for the registration, and at jobs.go for what is published.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
	mcptasks "github.com/mcplisten/mcplisten/extensions/tasks"
)

// users are the users by their tokens. A real service asks its token verifier.
var users = map[string]string{"alice-secret": "alice", "bob-secret": "bob"}

func user(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return users[token]
}

func run(ctx context.Context, addr string, step time.Duration, out io.Writer) error {
	all := newJobs(ctx, step)
	hub, err := core.NewHub(core.Config{
		Extensions: []core.Extension{mcptasks.Extension(mcptasks.Config{Authorize: all.authorize})},
	})
	if err != nil {
		return err
	}
	all.hub = hub
	defer all.wait()
	listen, err := mcphttp.New(hub, mcphttp.WithPrincipal(user))
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", listen)
	mux.HandleFunc("POST /jobs", func(w http.ResponseWriter, r *http.Request) {
		if user(r) == "" {
			http.Error(w, "a token is needed", http.StatusUnauthorized)
			return
		}
		task := all.start(user(r))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(task)
		fmt.Fprintf(out, "%s has started %s; to listen to it:\n%s\n", user(r), task.ID, curl(ln.Addr().String(), r.Header.Get("Authorization"), task.ID))
	})
	mux.HandleFunc("GET /jobs/{id}", func(w http.ResponseWriter, r *http.Request) {
		task, err := all.get(user(r), r.PathValue("id"))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(task)
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	mcphttp.RegisterShutdown(srv, hub)
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		stopped <- srv.Shutdown(ctx)
	})
	fmt.Fprintf(out, "listening on http://%s\n", ln.Addr())
	fmt.Fprintf(out, "to start a job:\ncurl -H 'Authorization: Bearer alice-secret' -X POST http://%s/jobs\n", ln.Addr())
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// curl returns the command that listens to a task.
func curl(addr, authorization, id string) string {
	return fmt.Sprintf(`curl -N http://%s/mcp -H 'Authorization: %s' -H 'Content-Type: application/json' \
  -H 'MCP-Protocol-Version: %s' -H 'Mcp-Method: %s' -d '{"jsonrpc":"2.0","id":1,"method":"%[4]s","params":{"_meta":{
  "%[5]s":"%[3]s","%[6]s":{"extensions":{"%[7]s":{}}}},"notifications":{"%[8]s":["%[9]s"]}}}'`,
		addr, authorization, core.ProtocolVersion, core.MethodListen, core.MetaProtocolVersion, core.MetaClientCapabilities,
		mcptasks.Family.Capability, mcptasks.Family.Member, id)
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "where to listen")
	step := flag.Duration("step", 5*time.Second, "how long each of the three steps of a job takes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	if err := run(ctx, *addr, *step, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
