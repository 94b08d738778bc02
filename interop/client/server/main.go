// The Go servers of the interop tests.

// Server is an MCP server of one of the Go implementations, for tests of the
// client: the official SDK, mcp-go, or mcplisten itself.
//
//	server -sdk gosdk|mcpgo|mcplisten [-stdio]
//
// Over HTTP its first two lines on standard output are "listening on URL" and
// "admin on URL". POST to the admin's /publish?kind=tools|updated&uri=U makes a
// change, /end ends the open streams as that implementation does it, /cut closes
// their connections. Over standard streams it publishes a change of its tools
// every 100 ms.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// implementation is what differs between the servers.
type implementation interface {
	handler() http.Handler
	publish(kind, uri string)
	end() // gracefully; over HTTP
	stdio(ctx context.Context) error
}

func main() {
	sdk := flag.String("sdk", "mcplisten", "gosdk, mcpgo or mcplisten")
	overStdio := flag.Bool("stdio", false, "serve on the standard streams")
	flag.Parse()
	// Gracefully means for the SDKs: the request's context ends while the
	// connection is still there.
	streams := &requests{cancels: make(map[*http.Request]context.CancelFunc)}
	var impl implementation
	switch *sdk {
	case "gosdk":
		impl = newGoSDK(streams)
	case "mcpgo":
		impl = newMCPGo(streams)
	case "mcplisten":
		impl = newOwn()
	default:
		log.Fatalf("there is no SDK %q", *sdk)
	}
	if *overStdio {
		go func() {
			for range time.Tick(100 * time.Millisecond) {
				impl.publish("tools", "")
			}
		}()
		log.Fatal(impl.stdio(context.Background()))
	}
	main := &http.Server{Handler: streams.wrap(impl.handler()), ReadHeaderTimeout: time.Minute}
	admin := http.NewServeMux()
	admin.HandleFunc("POST /publish", func(_ http.ResponseWriter, r *http.Request) {
		impl.publish(r.URL.Query().Get("kind"), r.URL.Query().Get("uri"))
	})
	admin.HandleFunc("POST /end", func(http.ResponseWriter, *http.Request) { impl.end() })
	admin.HandleFunc("POST /cut", func(http.ResponseWriter, *http.Request) { _ = main.Close() })
	served := make(chan error)
	serve(main, "listening", "/mcp", served)
	serve(&http.Server{Handler: admin, ReadHeaderTimeout: time.Minute}, "admin", "", served)
	<-served
	log.Fatal(<-served)
}

func serve(srv *http.Server, what, path string, served chan<- error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s on http://%s%s\n", what, ln.Addr(), path)
	go func() { served <- srv.Serve(ln) }()
}

// requests are those in progress.
type requests struct {
	mu      sync.Mutex
	cancels map[*http.Request]context.CancelFunc
}

func (q *requests) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		r = r.WithContext(ctx)
		q.mu.Lock()
		q.cancels[r] = cancel
		q.mu.Unlock()
		defer func() {
			cancel()
			q.mu.Lock()
			delete(q.cancels, r)
			q.mu.Unlock()
		}()
		h.ServeHTTP(w, r)
	})
}

// cancel ends the context of every request.
func (q *requests) cancel() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, cancel := range q.cancels {
		cancel()
	}
}
