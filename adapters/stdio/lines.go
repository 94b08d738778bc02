// Lines: cutting the input into messages, with bounded memory.

package mcpstdio

import (
	"bufio"
	"errors"
	"io"
)

var errLineTooLong = errors.New("mcpstdio: a line is too long")

// lines reads lines from a reader.
type lines struct {
	r        *bufio.Reader
	max      int  // bytes of a line
	skipping bool // inside a line that was too long
}

func newLines(r io.Reader, maxLine int) *lines {
	return &lines{r: bufio.NewReaderSize(r, 32<<10), max: maxLine}
}

// next returns the next line without its end. The slice is the caller's. What is
// left at the end of the input counts as a line. After errLineTooLong, which comes
// as soon as it is known, reading goes on behind that line.
func (l *lines) next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		ended := err == nil
		if ended {
			part = part[:len(part)-1]
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			err = nil
		}
		switch {
		case l.skipping && err != nil:
			return nil, err
		case l.skipping:
			l.skipping = !ended
			continue
		case len(line)+len(part) > l.max:
			l.skipping = !ended
			return nil, errLineTooLong
		}
		line = append(line, part...)
		switch {
		case ended, errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		case err != nil:
			return nil, err
		}
	}
}
