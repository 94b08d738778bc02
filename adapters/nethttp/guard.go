// The guard: Origin and Host, against web pages that reach a server by DNS
// rebinding. Comparing the two with each other does not help, since a rebound
// name is in both.

package mcphttp

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/mcplisten/mcplisten/core"
)

// guard decides by Origin and Host. Without lists it allows loopback names on a
// loopback listener.
type guard struct {
	origins map[string]bool // nil: none was configured
	hosts   map[string]bool // nil: none was configured
}

func newGuard(origins, hosts []string) (guard, error) {
	var g guard
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil ||
			strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
			return g, errors.New("mcphttp: an allowed origin is not of the form scheme://host or scheme://host:port")
		}
		if g.origins == nil {
			g.origins = make(map[string]bool)
		}
		g.origins[canonicalOrigin(u)] = true
	}
	for _, host := range hosts {
		if host == "" || strings.ContainsAny(host, "/@") {
			return g, errors.New("mcphttp: an allowed host is no host name")
		}
		if g.hosts == nil {
			g.hosts = make(map[string]bool)
		}
		g.hosts[hostname(host)] = true
	}
	return g, nil
}

// check returns the refusal of a request whose Origin or Host is not allowed.
func (g guard) check(r *http.Request) error {
	if !g.hostAllowed(r) {
		return &core.Error{
			Code: core.CodeInvalidRequest, Message: "the Host is not allowed", Refusal: core.RefusedHost,
		}
	}
	for _, origin := range r.Header["Origin"] {
		if !g.originAllowed(r, origin) {
			return &core.Error{
				Code: core.CodeInvalidRequest, Message: "the Origin is not allowed", Refusal: core.RefusedOrigin,
			}
		}
	}
	return nil
}

func (g guard) hostAllowed(r *http.Request) bool {
	host := hostname(r.Host)
	local := onLoopback(r)
	switch {
	case local && isLoopback(host):
		return true
	case g.hosts != nil:
		return g.hosts[host]
	default:
		return !local
	}
}

func (g guard) originAllowed(r *http.Request, origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false // "null" too
	}
	if g.origins != nil {
		return g.origins[canonicalOrigin(u)]
	}
	return onLoopback(r) && isLoopback(hostname(u.Host)) && (u.Scheme == "http" || u.Scheme == "https")
}

// canonicalOrigin returns an origin as browsers send it: in lower case, without
// the scheme's own port.
func canonicalOrigin(u *url.URL) string {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	switch {
	case scheme == "http":
		host = strings.TrimSuffix(host, ":80")
	case scheme == "https":
		host = strings.TrimSuffix(host, ":443")
	}
	return scheme + "://" + host
}

// hostname returns the name in host, without a port, brackets or a final dot, in
// lower case.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func isLoopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// onLoopback reports whether the request came in on a loopback listener.
func onLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
