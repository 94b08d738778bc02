// Code on pages: what a page shows as Go is a part of a file that is compiled.

// Package doccheck checks the Go code of documentation pages: each ```go block
// must stand, line for line, in a .go file of the repository. So it compiles, and
// where it is in an Example or a test, it runs.
package doccheck

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Pages fails the test unless every ```go block of the named pages, paths from the
// root of the repository, is compiled code. Indentation as a whole does not count:
// a block may be shown without that of the function it is from.
func Pages(tb testing.TB, pages ...string) {
	tb.Helper()
	root, err := findRoot()
	if err != nil {
		tb.Fatal(err)
	}
	sources, err := goFiles(root)
	if err != nil {
		tb.Fatal(err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			tb.Error(err)
			continue
		}
		for _, problem := range check(string(text), sources) {
			tb.Errorf("%s:%s", page, problem)
		}
	}
}

// findRoot returns the nearest folder upwards that has a go.work file.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("doccheck: no go.work here or above")
		}
		dir = up
	}
}

// goFiles returns the text of all .go files under root, with a line break before
// and after.
func goFiles(root string) (sources []string, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (entry.Name()[0] == '.' || entry.Name() == "testdata" || entry.Name() == "node_modules"):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		text, err := os.ReadFile(path)
		sources = append(sources, "\n"+string(text)+"\n")
		return err
	})
	return sources, err
}

// check returns what is wrong with a page's blocks, each with its line number.
func check(page string, sources []string) (problems []string) {
	for _, b := range blocks(page) {
		switch {
		case !b.closed:
			problems = append(problems, fmt.Sprintf("%d: the block of Go code is not closed", b.line))
		case strings.TrimSpace(b.text) == "":
			problems = append(problems, fmt.Sprintf("%d: the block of Go code is empty", b.line))
		case !compiled(b.text, sources):
			problems = append(problems, fmt.Sprintf("%d: this is in no .go file of the repository:\n%s", b.line, b.text))
		}
	}
	return problems
}

// block is one block of Go code.
type block struct {
	line   int // of its first fence
	text   string
	closed bool
}

func blocks(page string) (found []block) {
	var current *block
	n := 0
	for line := range strings.Lines(page) {
		n++
		fence := strings.TrimSpace(line)
		switch {
		case current == nil && (fence == "```go" || strings.HasPrefix(fence, "```go ")):
			found = append(found, block{line: n})
			current = &found[len(found)-1]
		case current != nil && fence == "```":
			current.closed = true
			current = nil
		case current != nil:
			current.text += line
		}
	}
	return found
}

// deepest is how far a block's code may be indented in its file.
const deepest = 8

// compiled reports whether a block stands in one of the sources.
func compiled(text string, sources []string) bool {
	lines := unindented(strings.Split(strings.Trim(text, "\n"), "\n"))
	for tabs := range deepest {
		var b strings.Builder
		for _, line := range lines {
			b.WriteByte('\n')
			if line != "" {
				b.WriteString(strings.Repeat("\t", tabs) + line)
			}
		}
		b.WriteByte('\n')
		for _, source := range sources {
			if strings.Contains(source, b.String()) {
				return true
			}
		}
	}
	return false
}

// unindented takes from the lines the tabs that all of them start with.
func unindented(lines []string) []string {
	common := deepest
	for _, line := range lines {
		if line != "" {
			common = min(common, len(line)-len(strings.TrimLeft(line, "\t")))
		}
	}
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = line[min(common, len(line)):]
	}
	return out
}
