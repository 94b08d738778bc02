// The status page: the open streams of a hub, for operators.

package mcphttp

import (
	_ "embed" // the page's template
	"encoding/json"
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// The status shows so many streams, the oldest ones, and so many URIs of each.
const (
	maxStatusStreams = 1000
	maxStatusURIs    = 20
)

//go:embed status.html
var statusHTML string

var statusPage = template.Must(template.New("status").Parse(statusHTML))

// StatusOption sets one thing of a status page.
type StatusOption func(*statusHandler)

// StatusPrincipals shows the principals. By default they are left out.
func StatusPrincipals() StatusOption { return func(s *statusHandler) { s.principals = true } }

// StatusURIs shows the URIs that are listened to, the first 20 of each stream. By
// default only their number is shown: they may say what a client works on.
func StatusURIs() StatusOption { return func(s *statusHandler) { s.uris = true } }

// StatusHosts sets the host names, without port, that the status answers to on a
// loopback listener beside the loopback ones, as [WithHosts] does for the
// endpoint: those of a proxy in front. What is no host name never matches.
func StatusHosts(hosts ...string) StatusOption {
	return func(s *statusHandler) {
		for _, allowed := range hosts {
			if name, valid := newHostName(hostname(allowed)); valid {
				s.guard.hosts = append(s.guard.hosts, name)
			}
		}
	}
}

// Status returns a read-only handler that shows the hub's open streams and what
// it has refused and ended: a page that refreshes itself, or JSON where the Accept
// header prefers application/json to text/html or the query says format=json. It
// shows at most 1,000 streams, the oldest ones.
//
// It asks nobody who they are: mount it behind the service's own authentication,
// or on an internal listener. On a loopback listener it answers to loopback names
// only, so that no web page can read it by DNS rebinding.
func Status(hub *core.Hub, options ...StatusOption) http.Handler {
	s := &statusHandler{hub: hub}
	for _, option := range options {
		option(s)
	}
	return s
}

type statusHandler struct {
	hub        *core.Hub
	guard      guard
	principals bool
	uris       bool
}

// statusReport is what the page shows, and its JSON form.
type statusReport struct {
	Open      int                     `json:"open"`
	Opening   int                     `json:"opening"`
	Shown     int                     `json:"shown"`
	Streams   []statusStream          `json:"streams"`
	Refused   map[core.Refusal]uint64 `json:"refused"`
	Closed    map[core.Reason]uint64  `json:"closed"`
	Unflushed uint64                  `json:"unflushed"`
	Broker    *statusBroker           `json:"broker,omitempty"`
}

// statusBroker is how the hub and its broker fare, where it has one.
type statusBroker struct {
	Connected bool   `json:"connected"`
	Sent      uint64 `json:"sent"`
	Failed    uint64 `json:"failed"`
	Received  uint64 `json:"received"`
	Ignored   uint64 `json:"ignored"`
	Gaps      uint64 `json:"gaps"`
	Unsent    int    `json:"unsent"`
	Stale     int    `json:"stale"`
}

type statusStream struct {
	Serial     uint64   `json:"serial"`
	Principal  string   `json:"principal,omitempty"`
	AgeSeconds float64  `json:"age_seconds"`
	IdleFor    float64  `json:"seconds_since_last_write"`
	Filter     []string `json:"filter"`
	Resources  int      `json:"resource_subscriptions"`
	URIs       []string `json:"uris,omitempty"`
	Delivered  uint64   `json:"delivered"`
	Coalesced  uint64   `json:"coalesced"`
	KeepAlives uint64   `json:"keepalives"`
	Bytes      uint64   `json:"bytes_written"`
}

func (s *statusHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	if onLoopback(r) && !s.guard.hostAllowed(r) {
		http.Error(w, "the Host is not allowed", http.StatusForbidden)
		return
	}
	report := s.report()
	// Where the writing fails, the reader has gone.
	if r.URL.Query().Get("format") == "json" || prefersJSON(r.Header) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(report)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	_ = statusPage.Execute(w, report)
}

func prefersJSON(header http.Header) bool {
	accept := header["Accept"]
	return weightOf(accept, "application", "json") > weightOf(accept, "text", "html")
}

func (s *statusHandler) report() statusReport {
	stats := s.hub.Stats()
	streams := s.hub.Streams()
	slices.SortFunc(streams, func(a, b core.StreamInfo) int { return a.Opened.Compare(b.Opened) })
	streams = streams[:min(len(streams), maxStatusStreams)]
	report := statusReport{
		Open: stats.Open, Opening: stats.Opening, Shown: len(streams), Streams: make([]statusStream, len(streams)),
		Refused: stats.Refused, Closed: stats.Closed, Unflushed: stats.Unflushed,
		Broker: (*statusBroker)(stats.Broker),
	}
	for i, stream := range streams {
		report.Streams[i] = s.stream(stream)
	}
	return report
}

func (s *statusHandler) stream(info core.StreamInfo) statusStream {
	shown := statusStream{
		Serial:     info.Serial,
		AgeSeconds: seconds(info.Opened),
		IdleFor:    seconds(info.LastWrite),
		Filter:     info.Filter.Members(),
		Resources:  len(info.Filter.ResourceSubscriptions),
		Delivered:  info.Delivered,
		Coalesced:  info.Coalesced,
		KeepAlives: info.KeepAlives,
		Bytes:      info.Bytes,
	}
	if s.principals {
		shown.Principal = info.Principal
	}
	if s.uris {
		uris := info.Filter.ResourceSubscriptions
		shown.URIs = uris[:min(len(uris), maxStatusURIs)]
	}
	return shown
}

// seconds returns the time since t in seconds, to a tenth.
func seconds(t time.Time) float64 { return time.Since(t).Round(100 * time.Millisecond).Seconds() }
