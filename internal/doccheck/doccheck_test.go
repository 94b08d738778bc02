// The check itself, and the pages that it holds for.

package doccheck

import (
	"strings"
	"testing"
)

func TestPages(t *testing.T) {
	t.Parallel()
	Pages(t, "README.md", "docs/extensions.md", "docs/middleware.md", "docs/observability.md", "docs/policies.md", "docs/migrating.md", "docs/scaling.md")
}

func TestCheck(t *testing.T) {
	t.Parallel()
	sources := []string{"\npackage a\n\nfunc f() {\n\tif true {\n\t\tg(1)\n\n\t\tg(2)\n\t}\n}\n\n"}
	fenced := func(code string) string { return "# A page\n\n```go\n" + code + "\n```\n\ntext\n" }
	for name, c := range map[string]struct {
		page string
		want string // a part of the only problem; empty: none
	}{
		"a whole function":            {fenced("func f() {\n\tif true {\n\t\tg(1)\n\n\t\tg(2)\n\t}\n}"), ""},
		"a part of it":                {fenced("g(1)\n\ng(2)"), ""},
		"a part, indented":            {fenced("\tif true {\n\t\tg(1)"), ""},
		"other languages":             {"```sh\ng(3)\n```\n```\ng(3)\n```\n", ""},
		"no code":                     {"text\n", ""},
		"another call":                {fenced("g(3)"), "3: this is in no .go file"},
		"half a line":                 {fenced("g(1"), "3: this is in no .go file"},
		"lines that are not together": {fenced("g(1)\ng(2)"), "3: this is in no .go file"},
		"another indentation inside":  {fenced("if true {\ng(1)"), "3: this is in no .go file"},
		"nothing":                     {fenced(""), "3: the block of Go code is empty"},
		"not closed":                  {"```go\ng(1)\n", "1: the block of Go code is not closed"},
		"the second one":              {fenced("g(1)") + fenced("g(3)"), "10: this is in no .go file"},
		"with attributes":             {"```go title=x\ng(3)\n```\n", "1: this is in no .go file"},
	} {
		problems := check(c.page, sources)
		switch {
		case c.want == "" && len(problems) != 0:
			t.Errorf("%s: got %q, want nothing wrong", name, problems)
		case c.want != "" && (len(problems) != 1 || !strings.Contains(problems[0], c.want)):
			t.Errorf("%s: got %q, want one with %q", name, problems, c.want)
		}
	}
}
