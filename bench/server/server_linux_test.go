package server

// The rows are tested by the comparison, which runs all of them. Here: what the admin listener refuses, and names.

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSplit(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]string{
		"mcplisten": {Mcplisten, ""}, "go-sdk+h2": {GoSDK, OverHTTP2}, "mcplisten-gin+tls": {McplistenGin, OverTLS}, "bare-write": {BareWrite, ""},
	} {
		row, transport, err := Split(name)
		if err != nil || row != want[0] || transport != want[1] {
			t.Errorf("%s: got %q, %q, %v", name, row, transport, err)
		}
	}
	for _, name := range []string{"", "+h2", "bare-write+tls", "mcplisten+h3", "mcplisten+tls+h2"} {
		if _, _, err := Split(name); err == nil {
			t.Errorf("%q: no error", name)
		}
	}
}

// counting is a row that counts.
type counting struct {
	row
	changes []change
}

func (c *counting) publish(_ context.Context, ch change) error {
	if ch.uri == "bad" {
		return errKind
	}
	c.changes = append(c.changes, ch)
	return nil
}

func TestPublish(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]int{
		"":                              http.StatusBadRequest,
		"kind=prompts":                  http.StatusBadRequest,
		"kind=tools&count=0":            http.StatusBadRequest,
		"kind=tools&count=99999999":     http.StatusBadRequest,
		"kind=tools&each=x":             http.StatusBadRequest,
		"kind=tools&pause=x":            http.StatusBadRequest,
		"kind=tools&pause=-1s":          http.StatusBadRequest,
		"kind=resource&uri=bad":         http.StatusInternalServerError,
		"kind=tools":                    http.StatusOK,
		"kind=resource&uri=a%3A&each=2": http.StatusOK,
	} {
		r := &counting{}
		w := httptest.NewRecorder()
		adminHandler(r).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/publish?"+query, nil))
		published := 0
		if want == http.StatusOK {
			published = 1
		}
		if w.Code != want || len(r.changes) != published {
			t.Errorf("%q: got %d and %v, want %d", query, w.Code, r.changes, want)
		}
	}
	r := &counting{}
	w := httptest.NewRecorder()
	began := time.Now().UnixNano()
	adminHandler(r).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/publish?kind=resource&uri=a&count=5&each=2&pause=2ms", nil))
	var p Published
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	if len(r.changes) != 5 || r.changes[4] != (change{resourceChange, "a"}) || p.Count != 5 {
		t.Errorf("got %v and %+v", r.changes, p)
	}
	if p.BeganNS < began || p.LastBeganNS < p.BeganNS+int64(4*time.Millisecond) || p.EndedNS < p.LastBeganNS || p.CallsNS < p.LongestNS {
		t.Errorf("times out of order, or without the two pauses: %+v", p)
	}
}
