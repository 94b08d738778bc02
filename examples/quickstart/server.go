// The MCP server behind the subscriptions: list and read, by the official SDK.

package main

import (
	"context"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"unicode/utf8"

	"github.com/mcplisten/mcplisten/examples/internal/dirwatch"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// server is an MCP server whose resources are the files of a directory.
type server struct {
	files *dirwatch.Dir
	mcp   *mcp.Server
	added map[string]bool // URIs that the MCP server knows
}

func newServer(files *dirwatch.Dir) *server {
	s := &server{
		files: files,
		mcp: mcp.NewServer(&mcp.Implementation{Name: "quickstart", Version: "1.0.0"}, &mcp.ServerOptions{
			// What server/discover says must agree with the hub's capabilities.
			Capabilities: &mcp.ServerCapabilities{
				Resources: &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true},
			},
		}),
		added: make(map[string]bool),
	}
	s.mcp.AddReceivingMiddleware(promiseOldClientsNothing)
	s.update()
	return s
}

// handler returns the server as an HTTP handler, closed to other sites' pages.
func (s *server) handler() http.Handler {
	h := mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return s.mcp },
		&mcp.StreamableHTTPOptions{Stateless: true},
	)
	return http.NewCrossOriginProtection().Handler(h)
}

// update makes the server's resources the files of the directory. It is called by
// one goroutine at a time.
func (s *server) update() {
	listed := make(map[string]bool)
	for _, file := range s.files.List() {
		listed[file.URI] = true
		if !s.added[file.URI] {
			s.mcp.AddResource(&mcp.Resource{
				URI:      file.URI,
				Name:     file.Name,
				MIMEType: mime.TypeByExtension(path.Ext(file.Name)),
			}, s.read)
		}
	}
	var gone []string
	for uri := range s.added {
		if !listed[uri] {
			gone = append(gone, uri)
		}
	}
	s.mcp.RemoveResources(gone...)
	s.added = listed
}

func (s *server) read(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := req.Params.URI
	data, err := s.files.Read(uri)
	switch {
	case errors.Is(err, dirwatch.ErrNotFound):
		return nil, mcp.ResourceNotFoundError(uri)
	case errors.Is(err, dirwatch.ErrTooLarge):
		return nil, err
	case err != nil:
		slog.Warn("read", "uri", uri, "err", err)
		return nil, errors.New("the file cannot be read")
	}
	contents := &mcp.ResourceContents{URI: uri}
	if len(data) > 0 && utf8.Valid(data) {
		contents.Text = string(data)
	} else {
		contents.Blob = data
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{contents}}, nil
}

// promiseOldClientsNothing corrects the answer to initialize, by which clients of
// older revisions start: they can list and read, but only subscriptions/listen
// tells of changes, and they do not know it.
func promiseOldClientsNothing(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		if init, ok := res.(*mcp.InitializeResult); ok && init != nil {
			init.Capabilities.Resources = &mcp.ResourceCapabilities{}
		}
		return res, err
	}
}
