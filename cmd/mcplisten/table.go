// The table of findings: a line for each as it is found, and a summary.

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

type table struct {
	out    io.Writer
	asJSON bool
}

func (t *table) add(f finding) {
	if t.asJSON {
		encoded, _ := json.Marshal(f) // nothing in it can fail
		fmt.Fprintf(t.out, "%s\n", encoded)
		return
	}
	fmt.Fprintf(t.out, "%-4s  %-28s  %s\n", f.Level, f.Check, f.Found)
	if f.Advice != "" {
		for _, line := range wrap(f.Advice, 76) {
			fmt.Fprintf(t.out, "%-4s  %-28s    %s\n", "", "", line)
		}
	}
}

func (t *table) end(counts map[level]int) {
	if t.asJSON {
		return
	}
	var parts []string
	for _, l := range []level{fail, warn, note, skip, ok} {
		if counts[l] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[l], l))
		}
	}
	fmt.Fprintf(t.out, "\n%s\n", strings.Join(parts, ", "))
}

// wrap breaks a text into lines of at most width bytes, where words allow it.
func wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
