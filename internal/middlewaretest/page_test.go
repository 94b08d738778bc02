// The page: docs/middleware.md, made of what the matrix found and of the source
// of the remedies.

package middlewaretest

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/middleware.md")

const pageFile = "../../docs/middleware.md"

const pageHead = `# Behind middleware

What becomes of a listen request behind the middleware of each framework. This
page is written and checked by a test that opens streams over HTTP/1.1 and HTTP/2
behind each of them (` + "`internal/middlewaretest`" + `), and
[lean ones](scaling.md#lean-streams), of which the same becomes. But a lean one takes a
throttle's place only until it is open, a dump of it has the acknowledgment alone, and
where it is compressed it is an ordinary one.

"Streams" means: headers and acknowledgment come at once, and so does every
notification. "Refused" means: before the first byte of a stream, with HTTP status
500 and a JSON-RPC error that has the message; the hub's logger, or the handler's own,
gets it once, with the type of the response writer. A stream is never held back in
silence.

How it is done, for those who write middleware:

- The wrappers are followed down by ` + "`Unwrap`" + `. The one at the bottom must be able to
  flush, or the request is refused.
- A wrapper with ` + "`Unwrap`" + ` and without ` + "`Flush`" + ` is passed by: a flush goes past it, and
  what it holds would not come out. It sees the header and the status of a stream,
  not its bytes.
- Where a wrapper says whether the response has started (` + "`Written() bool`" + `, as gin's
  do), an empty write tells before the acknowledgment whether it holds back. Where
  one counts bytes (` + "`Size() int`" + `, ` + "`BytesWritten() int`" + `), a stream whose acknowledgment
  did not come through is ended at once, and the log says why.
- A deadline of the request's context ends the stream with its result shortly
  before.
`

// checkPage compares the page with what the matrix found.
func checkPage(t *testing.T, outcomes [][]string) {
	t.Helper()
	page := renderPage(t, outcomes)
	if *update {
		if err := os.WriteFile(pageFile, page, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	old, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(old, page) {
		return
	}
	was, is := strings.Split(string(old), "\n"), strings.Split(string(page), "\n")
	for i, line := range is {
		if i >= len(was) || was[i] != line {
			t.Fatalf("%s says otherwise, from line %d; it should be:\n%s\ngo test -update writes it", pageFile, i+1, line)
		}
	}
	t.Fatalf("%s has more lines than it should", pageFile)
}

func renderPage(t *testing.T, outcomes [][]string) []byte {
	t.Helper()
	sources := functions(t)
	var b bytes.Buffer
	b.WriteString(pageHead)
	for i, f := range frameworks {
		fmt.Fprintf(&b, "\n## %s\n\n| middleware | what happens | |\n|---|---|---|\n", f.name)
		for j, c := range f.cells {
			note := c.note
			if c.remedy != "" {
				note += fmt.Sprintf(" → [%s](#%s)", c.remedy, anchor(c.remedy))
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", c.middleware, outcomes[i][j], strings.TrimSpace(note))
		}
	}
	b.WriteString("\n## What to do\n\nEach of these is run by the test.\n")
	for _, r := range remedies {
		fmt.Fprintf(&b, "\n### %s\n\n```go\n%s```\n", r.title, sources[r.name])
	}
	return b.Bytes()
}

// anchor returns the name that a heading is linked by.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case strings.ContainsRune(":,/'`", r):
			return -1
		default:
			return r
		}
	}, strings.ToLower(title))
}

// functions returns the bodies of this package's functions, by name.
func functions(t *testing.T) map[string]string {
	t.Helper()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	bodies := make(map[string]string)
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		source, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file.Name(), source, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				bodies[f.Name.Name] = dedent(source[set.Position(f.Body.Lbrace).Offset+1 : set.Position(f.Body.Rbrace).Offset])
			}
		}
	}
	return bodies
}

// dedent takes one tab off each line, and the final return.
func dedent(body []byte) string {
	lines := strings.SplitAfter(strings.TrimPrefix(string(body), "\n"), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "\treturn ") })
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "\t")
	}
	return strings.Join(lines, "")
}
