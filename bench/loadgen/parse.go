package loadgen

// This file reads just enough of an answer to time it: the status, the chunk sizes, and the lines that begin with "data:". Bytes
// may be cut anywhere between two reads; a stream keeps a buffer of its own only while it waits for the rest of a line.

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

const (
	maxHeader = 16 << 10
	maxLine   = 64 << 10
	maxChunk  = 1 << 30
)

type stage uint8

const (
	inHeader    stage = iota
	inChunkSize       // hexadecimal digits
	inChunkExt        // the rest of the size line
	inChunk           // the chunk's data
	afterChunk        // the line end that follows it
	inPlain           // a body without chunks, until the connection ends
	atEnd
)

// message is what a data line holds, as far as the load generator cares.
type message uint8

const (
	msgOther  message = iota
	msgAck            // notifications/subscriptions/acknowledged
	msgChange         // one of the four change notifications
	msgEnd            // a result or an error: the stream is over
)

var (
	errMalformed = errors.New("loadgen: the answer is malformed, or has an overlong line")
	errNoStream  = errors.New("loadgen: the answer is not text/event-stream")
)

// reader is the parse state of one answer.
type reader struct {
	stage stage
	left  int    // the current chunk's size while it is read, then its bytes still to come
	part  []byte // an unfinished header or body line
}

// feed takes the next bytes of the answer and calls emit with the content of each complete data line. What emit gets is valid
// during the call only.
func (r *reader) feed(p []byte, emit func(data []byte)) error {
	for len(p) > 0 {
		switch r.stage {
		case inHeader:
			before := len(r.part)
			r.part = append(r.part, p...)
			end := bytes.Index(r.part, []byte("\r\n\r\n"))
			if end < 0 {
				if len(r.part) > maxHeader {
					return errMalformed
				}
				return nil
			}
			p = p[end+4-before:]
			chunked, err := checkHeader(string(r.part[:end]))
			if err != nil {
				return err
			}
			r.part, r.stage = nil, inPlain
			if chunked {
				r.stage = inChunkSize
			}
		case inChunkSize, inChunkExt:
			b := p[0]
			p = p[1:]
			switch d := hexDigit(b); {
			case b == '\n' && r.left == 0:
				r.stage = atEnd
			case b == '\n':
				r.stage = inChunk
			case r.stage == inChunkExt:
			case d >= 0:
				if r.left = r.left<<4 | d; r.left > maxChunk {
					return errMalformed
				}
			case b == '\r' || b == ';' || b == ' ':
				r.stage = inChunkExt
			default:
				return errMalformed
			}
		case inChunk:
			n := min(len(p), r.left)
			if err := r.lines(p[:n], emit); err != nil {
				return err
			}
			p, r.left = p[n:], r.left-n
			if r.left == 0 {
				r.stage = afterChunk
			}
		case afterChunk:
			switch p[0] {
			case '\r':
			case '\n':
				r.stage = inChunkSize
			default:
				return errMalformed
			}
			p = p[1:]
		case inPlain:
			return r.lines(p, emit)
		case atEnd:
			return nil
		}
	}
	return nil
}

// lines cuts body bytes into lines.
func (r *reader) lines(p []byte, emit func(data []byte)) error {
	for len(p) > 0 {
		nl := bytes.IndexByte(p, '\n')
		if nl < 0 {
			r.part = append(r.part, p...)
			if len(r.part) > maxLine {
				return errMalformed
			}
			return nil
		}
		line := p[:nl]
		p = p[nl+1:]
		if r.part != nil {
			line = append(r.part, line...)
			r.part = nil
		}
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			emit(bytes.TrimSpace(data))
		}
	}
	return nil
}

// checkHeader tells whether the body is chunked, and fails if the answer is no event stream.
func checkHeader(head string) (chunked bool, err error) {
	lines := strings.Split(head, "\r\n")
	_, status, _ := strings.Cut(lines[0], " ")
	if !strings.HasPrefix(status, "200") {
		return false, fmt.Errorf("loadgen: the server answered %q", status)
	}
	events := false
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		value = strings.ToLower(strings.TrimSpace(value))
		switch strings.ToLower(name) {
		case "transfer-encoding":
			chunked = value == "chunked"
		case "content-type":
			events = strings.HasPrefix(value, "text/event-stream")
		}
	}
	if !events {
		return false, errNoStream
	}
	return chunked, nil
}

func hexDigit(b byte) int {
	switch {
	case b >= '0' && b <= '9':
		return int(b - '0')
	case b >= 'a' && b <= 'f':
		return int(b-'a') + 10
	case b >= 'A' && b <= 'F':
		return int(b-'A') + 10
	}
	return -1
}

var (
	ackMethod     = []byte(`"notifications/subscriptions/acknowledged"`)
	changeMethods = [][]byte{
		[]byte(`"notifications/tools/list_changed"`),
		[]byte(`"notifications/prompts/list_changed"`),
		[]byte(`"notifications/resources/list_changed"`),
		[]byte(`"notifications/resources/updated"`),
	}
	resultMember = []byte(`"result"`)
	errorMember  = []byte(`"error"`)
)

// classify looks for a method name in its quotes: inside any other JSON string those quotes would be escaped.
func classify(data []byte) message {
	for _, m := range changeMethods {
		if bytes.Contains(data, m) {
			return msgChange
		}
	}
	switch {
	case bytes.Contains(data, ackMethod):
		return msgAck
	case bytes.Contains(data, resultMember), bytes.Contains(data, errorMember):
		return msgEnd
	}
	return msgOther
}
