// Reading server-sent events, as the WHATWG HTML Standard says (section 9.2.6):
// from any reader, as the bytes come, in bounded memory.

// Package sse reads streams of server-sent events.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrTooLarge is what [Reader.Next] returns when a line, or the data of an event,
// is over the limit.
var ErrTooLarge = errors.New("sse: the event is larger than the limit")

// Event is one event, or one comment line.
type Event struct {
	Comment bool   // a comment; Data is its text
	Name    string // of the event field, empty where there was none
	Data    []byte // valid until the next call of Next
}

// Reader reads a stream. It is not safe for concurrent use.
type Reader struct {
	r        *bufio.Reader
	limit    int
	line     []byte
	data     []byte
	name     string
	hasData  bool
	started  bool
	skipFeed bool // the last line ended with CR: a LF belongs to it
	spent    bool // data was handed out
}

// bufferSize is what an idle Reader holds.
const bufferSize = 4 << 10

// NewReader returns a Reader for events and comments with at most limit bytes of
// data.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, bufferSize), limit: limit}
}

// Next returns the next event or comment as soon as its last line end was read.
// It returns io.EOF at the end; an event that is not finished by then is
// dropped, as the standard says. Ids and retry times are ignored. An event
// without a data line is none.
func (r *Reader) Next() (Event, error) {
	if r.spent {
		r.reset()
	}
	for {
		line, err := r.readLine()
		if err != nil {
			return Event{}, err
		}
		switch {
		case len(line) == 0 && r.hasData:
			r.spent = true
			return Event{Name: r.name, Data: r.data[:len(r.data)-1]}, nil
		case len(line) == 0:
			r.reset()
		case line[0] == ':':
			if len(line)-1 > r.limit {
				return Event{}, ErrTooLarge
			}
			return Event{Comment: true, Data: line[1:]}, nil
		default:
			if err := r.field(line); err != nil {
				return Event{}, err
			}
		}
	}
}

func (r *Reader) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if len(r.data)+len(value) > r.limit {
			return ErrTooLarge
		}
		r.data = append(append(r.data, value...), '\n')
		r.hasData = true
	case "event":
		r.name = string(value)
	}
	return nil
}

// maxKept is the largest buffer that is kept for the next event.
const maxKept = 64 << 10

func (r *Reader) reset() {
	r.name, r.hasData, r.spent = "", false, false
	r.data = r.data[:0]
	if cap(r.data) > maxKept {
		r.data = nil
	}
	if cap(r.line) > maxKept {
		r.line = nil
	}
}

// readLine returns the next line without its end: CR, LF or CR LF. It does not
// wait for what follows a CR.
func (r *Reader) readLine() ([]byte, error) {
	r.line = r.line[:0]
	for {
		if r.r.Buffered() == 0 {
			if _, err := r.r.Peek(1); err != nil {
				return nil, err
			}
		}
		chunk, _ := r.r.Peek(r.r.Buffered())
		if r.skipFeed {
			r.skipFeed = false
			if chunk[0] == '\n' {
				_, _ = r.r.Discard(1)
				continue
			}
		}
		end := bytes.IndexAny(chunk, "\r\n")
		if end < 0 {
			end = len(chunk)
		}
		// A data line may be longer than the data in it.
		if len(r.line)+end > r.limit+len("data: ") {
			return nil, ErrTooLarge
		}
		r.line = append(r.line, chunk[:end]...)
		if end == len(chunk) {
			_, _ = r.r.Discard(end)
			continue
		}
		r.skipFeed = chunk[end] == '\r'
		_, _ = r.r.Discard(end + 1)
		line := r.line
		if !r.started {
			r.started = true
			line = bytes.TrimPrefix(line, []byte("\uFEFF"))
		}
		return line, nil
	}
}
