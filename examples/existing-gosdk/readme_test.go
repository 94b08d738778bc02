// The difference between the two programs is what the README shows.

package existinggosdk_test

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func lines(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.SplitAfter(string(text), "\n")
}

// TestReadme applies the README's diff to the program before it: that must give the
// one after it, to the last byte.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme, before := lines(t, "README.md"), lines(t, "before/main.go")
	start := slices.Index(readme, "```diff\n")
	if start < 0 {
		t.Fatal("the README has no diff")
	}
	diff := readme[start+1:]
	diff = diff[:slices.Index(diff, "```\n")]
	var after []string
	at := 0 // in before
	for i, line := range diff {
		text := line[1:]
		switch line[0] {
		case '@': // the next line of the diff says where to go on
			next := slices.Index(before[at:], diff[i+1][1:])
			if next < 0 {
				t.Fatalf("the program before has no line %q after line %d", diff[i+1][1:], at)
			}
			after = append(after, before[at:at+next]...)
			at += next
		case '+':
			after = append(after, text)
		case ' ', '-':
			if before[at] != text {
				t.Fatalf("line %d of the program before is %q, and in the diff %q", at+1, before[at], text)
			}
			if line[0] == ' ' {
				after = append(after, text)
			}
			at++
		default:
			t.Fatalf("no line of a diff: %q", line)
		}
	}
	after = append(after, before[at:]...)
	if want := lines(t, "after/main.go"); !slices.Equal(after, want) {
		for i := range min(len(after), len(want)) {
			if after[i] != want[i] {
				t.Fatalf("line %d of the program after is %q, by the diff %q", i+1, want[i], after[i])
			}
		}
		t.Fatalf("the program after has %d lines, by the diff %d", len(want), len(after))
	}
}
