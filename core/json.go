// Reading JSON strictly. encoding/json matches member names without regard to
// case, lets the last of two equal names win and rounds numbers; each of these
// lets two readers see two requests. So validity is checked by encoding/json and
// the walk over members is done here, on the valid bytes.

package core

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// maxDepth is the deepest nesting of a message: protection for whatever walks it
// later, and far beyond what the protocol needs.
const maxDepth = 64

// unreadable is the nesting over which encoding/json takes valid JSON for
// invalid.
const unreadable = 10_000

var (
	errNotJSON = errors.New("core: not valid JSON")
	errTooDeep = errors.New("core: nested too deeply")
)

// checkJSON reports whether data is one valid JSON value in valid UTF-8, no
// deeper than maxDepth. It looks at the depth first, so that no later reader
// recurses into a hostile one.
func checkJSON(data []byte) error {
	switch deepest := depth(data); {
	case deepest > unreadable:
		return errTooDeep
	case !json.Valid(data) || !utf8.Valid(data):
		return errNotJSON
	case deepest > maxDepth:
		return errTooDeep
	}
	return nil
}

// depth returns the deepest nesting of arrays and objects in data.
func depth(data []byte) int {
	deepest, now := 0, 0
	inString := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString:
			switch c {
			case '\\':
				i++
			case '"':
				inString = false
			}
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

// members calls f with the unescaped name and the raw value of each member of
// the object raw, which must be valid JSON. It fails with ErrDuplicateMember if a name
// stands twice, however it is escaped, and with f's error.
func members(raw []byte, f func(name string, value []byte) error) error {
	seen := make(map[string]struct{}, 8)
	i := skipSpace(raw, 1)
	for raw[i] != '}' {
		end := skipString(raw, i)
		name, _ := unquote(raw[i:end])
		if _, dup := seen[name]; dup {
			return ErrDuplicateMember
		}
		seen[name] = struct{}{}
		i = skipSpace(raw, end) // at the colon
		i = skipSpace(raw, i+1) // at the value
		end = skipValue(raw, i)
		if err := f(name, raw[i:end]); err != nil {
			return err
		}
		i = skipSpace(raw, end)
		if raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return nil
}

// elements calls f with each raw element of the array raw, which must be valid
// JSON, until f fails.
func elements(raw []byte, f func(value []byte) error) error {
	i := skipSpace(raw, 1)
	for raw[i] != ']' {
		end := skipValue(raw, i)
		if err := f(raw[i:end]); err != nil {
			return err
		}
		i = skipSpace(raw, end)
		if raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return nil
}

func skipSpace(raw []byte, i int) int {
	for raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\n' || raw[i] == '\r' {
		i++
	}
	return i
}

// skipString returns the index behind the string that starts at i.
func skipString(raw []byte, i int) int {
	for i++; raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// skipValue returns the index behind the value that starts at i.
func skipValue(raw []byte, i int) int {
	switch raw[i] {
	case '"':
		return skipString(raw, i)
	case '{', '[':
		open := 0
		for {
			switch raw[i] {
			case '"':
				i = skipString(raw, i)
				continue
			case '{', '[':
				open++
			case '}', ']':
				open--
			}
			i++
			if open == 0 {
				return i
			}
		}
	default:
		for i < len(raw) && strings.IndexByte(" \t\r\n,]}", raw[i]) < 0 {
			i++
		}
		return i
	}
}

func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }
func isArray(raw []byte) bool  { return len(raw) > 0 && raw[0] == '[' }
func isString(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }

// unquote returns the string that the valid JSON string raw stands for. It is
// not exact if raw holds half of a surrogate pair, which stands for no character:
// two such strings would be one afterwards.
func unquote(raw []byte) (s string, exact bool) {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), true
	}
	// The bytes are a valid JSON string: decoding cannot fail.
	_ = json.Unmarshal(raw, &s)
	return s, !loneSurrogate(inner)
}

// loneSurrogate reports whether the inside of a valid JSON string escapes half
// of a surrogate pair.
func loneSurrogate(inner []byte) bool {
	for i := 0; i < len(inner); i++ {
		if inner[i] != '\\' {
			continue
		}
		i++
		if inner[i] != 'u' {
			continue
		}
		unit := hex4(inner[i+1:])
		i += 4
		switch {
		case unit >= 0xDC00 && unit < 0xE000:
			return true
		case unit >= 0xD800 && unit < 0xDC00:
			if len(inner) < i+7 || inner[i+1] != '\\' || inner[i+2] != 'u' {
				return true
			}
			if low := hex4(inner[i+3:]); low < 0xDC00 || low >= 0xE000 {
				return true
			}
			i += 6
		}
	}
	return false
}

// hex4 returns the number that the first four bytes, valid hexadecimal digits,
// stand for.
func hex4(digits []byte) int {
	n := 0
	for _, c := range digits[:4] {
		switch {
		case c <= '9':
			n = n<<4 | int(c-'0')
		default:
			n = n<<4 | int(c|0x20-'a'+10)
		}
	}
	return n
}

const hexDigits = "0123456789abcdef"

// appendString appends s, which must be valid UTF-8, as a JSON string.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		if c == '"' || c == '\\' {
			b = append(b, '\\', c)
		} else {
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xF])
		}
		from = i + 1
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}
