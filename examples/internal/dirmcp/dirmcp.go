// Package dirmcp makes the files of a directory the resources of an MCP server of the
// official SDK. It is what examples/quickstart and examples/stdio have in common.
package dirmcp

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

// Resources are the files, as the server knows them.
type Resources struct {
	files  *dirwatch.Dir
	server *mcp.Server
	added  map[string]bool // URIs that the server knows
}

// Add makes the files of the directory resources of the server.
func Add(server *mcp.Server, files *dirwatch.Dir) *Resources {
	r := &Resources{files: files, server: server, added: make(map[string]bool)}
	r.Update()
	return r
}

// Update makes the server's resources the files of the directory. It is called by
// one goroutine at a time.
func (r *Resources) Update() {
	listed := make(map[string]bool)
	for _, file := range r.files.List() {
		listed[file.URI] = true
		if !r.added[file.URI] {
			r.server.AddResource(&mcp.Resource{
				URI:      file.URI,
				Name:     file.Name,
				MIMEType: mime.TypeByExtension(path.Ext(file.Name)),
			}, r.read)
		}
	}
	var gone []string
	for uri := range r.added {
		if !listed[uri] {
			gone = append(gone, uri)
		}
	}
	r.server.RemoveResources(gone...)
	r.added = listed
}

func (r *Resources) read(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := req.Params.URI
	data, err := r.files.Read(uri)
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
