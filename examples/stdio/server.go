// The MCP server behind the subscriptions: list and read, by the official SDK.

package main

import (
	"context"
	"errors"
	"log/slog"
	"mime"
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
		mcp: mcp.NewServer(&mcp.Implementation{Name: "stdio", Version: "1.0.0"}, &mcp.ServerOptions{
			// Also while there are no files yet. Older clients are told of the list by
			// the SDK itself.
			Capabilities: &mcp.ServerCapabilities{Resources: &mcp.ResourceCapabilities{ListChanged: true}},
		}),
		added: make(map[string]bool),
	}
	s.update()
	return s
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
