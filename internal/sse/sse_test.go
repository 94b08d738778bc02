// The reader against the rules of the WHATWG standard, and however the bytes
// happen to come.

package sse_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/mcplisten/mcplisten/internal/sse"
)

// event is an Event that may be kept.
type event struct {
	comment    bool
	name, data string
}

func readAll(r io.Reader, limit int) ([]event, error) {
	reader := sse.NewReader(r, limit)
	var events []event
	for {
		e, err := reader.Next()
		if err != nil {
			return events, err
		}
		events = append(events, event{e.Comment, e.Name, string(e.Data)})
	}
}

func data(text string) event    { return event{data: text} }
func comment(text string) event { return event{comment: true, data: text} }

func TestReader(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in string
		want     []event
	}{
		{"LF", "data: a\n\ndata: b\n\n", []event{data("a"), data("b")}},
		{"CR", "data: a\r\rdata: b\r\r", []event{data("a"), data("b")}},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []event{data("a"), data("b")}},
		{"mixed line ends", "data: a\r\n\rdata: b\n\r\n", []event{data("a"), data("b")}},
		{"several data lines", "data: a\ndata: b\ndata\n\n", []event{data("a\nb\n")}},
		{"no space", "data:a\n\n", []event{data("a")}},
		{"only the first space goes", "data:  a\n\n", []event{data(" a")}},
		{"byte order mark", "\uFEFFdata: a\n\n", []event{data("a")}},
		{"a byte order mark later is no mark", "data: a\n\n\uFEFFdata: b\n\n", []event{data("a")}},
		{"comments", ": keep-alive\n\n:\ndata: a\n: within\n\n", []event{comment(" keep-alive"), comment(""), comment(" within"), data("a")}},
		{"name", "event: ping\ndata: a\n\ndata: b\n\n", []event{{name: "ping", data: "a"}, data("b")}},
		{"the last name counts", "event: x\nevent: y\ndata: a\n\n", []event{{name: "y", data: "a"}}},
		{"ids, retry times and unknown fields", "id: 1\nretry: 5\nfoo: bar\nDATA: x\n data: y\ndata: a\n\n", []event{data("a")}},
		{"no data, no event", "event: ping\n\nid: 1\n\ndata: a\n\n", []event{data("a")}},
		{"empty data", "data:\n\n", []event{data("")}},
		{"a colon in the data", "data: {\"a\":1}\n\n", []event{data(`{"a":1}`)}},
		{"unfinished", "data: a\n\ndata: b\n", []event{data("a")}},
		{"unfinished line", "data: a\n\ndata: b", []event{data("a")}},
		{"nothing", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for way, r := range map[string]io.Reader{
				"at once":      strings.NewReader(tt.in),
				"byte by byte": iotest.OneByteReader(strings.NewReader(tt.in)),
				"with the end": iotest.DataErrReader(strings.NewReader(tt.in)),
			} {
				got, err := readAll(r, 100)
				if !slices.Equal(got, tt.want) || !errors.Is(err, io.EOF) {
					t.Errorf("%s: got %+v, %v, want %+v, EOF", way, got, err, tt.want)
				}
			}
		})
	}
}

// An event is there with its last byte, not with the next one: a CR ends a line
// before it is known whether a LF follows.
func TestReaderDoesNotWait(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"\n\n", "\r\r", "\r\n\r\n", "\r\n\r"} {
		r, w := io.Pipe()
		go func() { _, _ = io.WriteString(w, "data: a"+end) }() // the pipe stays open
		e, err := sse.NewReader(r, 100).Next()
		if string(e.Data) != "a" || err != nil {
			t.Errorf("%q: got %q, %v", end, e.Data, err)
		}
		_ = r.Close()
	}
}

func TestReaderLimit(t *testing.T) {
	t.Parallel()
	const limit = 10_000
	fits := strings.Repeat("x", limit)
	tests := []struct {
		name, in string
		want     error
	}{
		{"fits", "data: " + fits + "\n\n", io.EOF},
		{"line", "data: " + fits + "x\n\n", sse.ErrTooLarge},
		{"line without end", "data: " + fits + fits, sse.ErrTooLarge},
		{"sum of lines", "data: " + fits[:limit/2] + "\ndata: " + fits[:limit/2] + "\n\n", sse.ErrTooLarge},
		{"empty lines add up", strings.Repeat("data\n", limit+2) + "\n", sse.ErrTooLarge},
		{"comment that fits", ":" + fits + "\n\n", io.EOF},
		{"comment", ":" + fits + "x\n\n", sse.ErrTooLarge},
		{"long comment", ":" + fits + fits + "\n\n", sse.ErrTooLarge},
	}
	for _, tt := range tests {
		if _, err := readAll(strings.NewReader(tt.in), limit); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestReaderReportsErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	got, err := readAll(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)), 100)
	if !slices.Equal(got, []event{data("a")}) || !errors.Is(err, broken) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// FuzzReader: how the bytes are cut does not matter, a simple reading of the
// standard finds the same, and nothing exceeds the limit.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"data: a\n\n", "\uFEFFdata: a\r\ndata: b\r\r\n", ": c\nevent: e\ndata\n\n", "\r\n\r\n\r", "data:\x00\xff\n\n", "event\n\ndata: x\n\n",
	} {
		f.Add([]byte(seed), uint8(3))
	}
	f.Fuzz(func(t *testing.T, in []byte, cut uint8) {
		const limit = 1 << 10
		whole, err := readAll(bytes.NewReader(in), limit)
		if errors.Is(err, sse.ErrTooLarge) {
			return
		}
		if want := simple(string(in)); !slices.Equal(whole, want) {
			t.Fatalf("got %+v, want %+v", whole, want)
		}
		n := min(int(cut), len(in))
		parts := io.MultiReader(bytes.NewReader(in[:n]), iotest.OneByteReader(bytes.NewReader(in[n:])))
		if got, _ := readAll(parts, limit); !slices.Equal(got, whole) {
			t.Fatalf("in parts: got %+v, want %+v", got, whole)
		}
		for _, e := range whole {
			if len(e.data) > limit {
				t.Fatalf("an event of %d bytes", len(e.data))
			}
		}
	})
}

// simple reads a stream that is there as a whole.
func simple(in string) (events []event) {
	in = strings.ReplaceAll(strings.ReplaceAll(in, "\r\n", "\n"), "\r", "\n")
	in = strings.TrimPrefix(in, "\uFEFF")
	lines := strings.Split(in, "\n")
	name, has := "", []string(nil)
	for _, line := range lines[:len(lines)-1] {
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if has != nil {
				events = append(events, event{name: name, data: strings.Join(has, "\n")})
			}
			name, has = "", nil
		case line[0] == ':':
			events = append(events, comment(line[1:]))
		case field == "data":
			has = append(has, value)
		case field == "event":
			name = value
		}
	}
	return events
}
