package loadgen

// This file makes the requests. The number of a stream has a fixed width, so that all requests of one configuration have the same
// length, and a request is pieces of text with the number in between.

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// idDigits is the width of a stream's number.
const idDigits = 7

// MaxStreams is how many streams one client can number.
const MaxStreams = 10_000_000 - 1

// placeholder stands for the number in a filter.
const placeholder = "{n}"

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"loadgen","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

const toolsFilter = `{"toolsListChanged":true}`

// request is a listen request with the stream's number left out.
type request struct {
	url    *url.URL
	header http.Header
	head   string   // of HTTP/1.1
	body   []string // the number goes between the pieces
}

func newRequest(u *url.URL, filter string, header []string) (*request, error) {
	if filter == "" {
		filter = toolsFilter
	}
	if !json.Valid([]byte(strings.ReplaceAll(filter, placeholder, "0"))) {
		return nil, errors.New("loadgen: the filter is not JSON")
	}
	r := &request{url: u, header: http.Header{}}
	for _, h := range append([]string{
		"Content-Type: application/json",
		"Accept: application/json, text/event-stream",
		"MCP-Protocol-Version: 2026-07-28",
		"Mcp-Method: subscriptions/listen",
	}, header...) {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.ContainsAny(h, "\r\n") {
			return nil, errors.New("loadgen: a header needs the form NAME: VALUE")
		}
		r.header.Set(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	r.body = strings.Split(`{"jsonrpc":"2.0","id":"s-`+placeholder+`","method":"subscriptions/listen","params":{`+meta+`,"notifications":`+filter+`}}`, placeholder)
	length := len(strings.Join(r.body, "")) + idDigits*(len(r.body)-1)
	var b strings.Builder
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", u.RequestURI(), u.Host, length)
	if err := r.header.Write(&b); err != nil {
		return nil, fmt.Errorf("loadgen: the headers: %w", err)
	}
	b.WriteString("\r\n")
	r.head = b.String()
	return r, nil
}

// appendBody appends the body of stream i's request.
func (r *request) appendBody(b []byte, i int) []byte {
	for k, piece := range r.body {
		if k > 0 {
			b = appendNumber(b, i)
		}
		b = append(b, piece...)
	}
	return b
}

func appendNumber(b []byte, i int) []byte {
	digits := strconv.Itoa(i)
	for range idDigits - len(digits) {
		b = append(b, '0')
	}
	return append(b, digits...)
}

// appendID appends the request id of stream i.
func appendID(b []byte, i int) []byte {
	return append(appendNumber(append(b, `"s-`...), i), '"')
}

// parseURLs returns the endpoints; all have the same scheme.
func parseURLs(list string) ([]*url.URL, error) {
	var all []*url.URL
	for s := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("loadgen: want http:// or https:// URLs, not %q", s)
		}
		if len(all) > 0 && u.Scheme != all[0].Scheme {
			return nil, errors.New("loadgen: the URLs have different schemes")
		}
		all = append(all, u)
	}
	return all, nil
}
