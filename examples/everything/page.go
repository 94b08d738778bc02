// The page at "/": a client to look at, in plain HTML and script.

package main

import (
	"embed"
	"io/fs"
	"net/http"
)

//go:embed page
var pageFiles embed.FS

// pagePaths are the paths of the page and of what it loads.
var pagePaths = []string{"/", "/page.css", "/page.js"}

// pagePolicy lets the page run its own script, and call any server.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src http: https:; " +
	"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// page serves GET requests to pagePaths.
func page() http.Handler {
	files, err := fs.Sub(pageFiles, "page")
	if err != nil {
		panic(err) // the name is a constant
	}
	server := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", pagePolicy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		server.ServeHTTP(w, r)
	})
}
