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
	"slices"
	"strings"
	"unicode"

	"github.com/mcplisten/mcplisten/core"
)

// guard decides by Origin and Host. Without lists it allows loopback names on a
// loopback listener.
type guard struct {
	origins []origin   // nil: none was configured
	hosts   []hostName // nil: none was configured
}

// origin is an allowed origin, with the port written out.
type origin struct {
	scheme, port string
	host         hostName
}

// hostName is an allowed host: a name, or a dot and the domain whose sub-domains
// are meant.
type hostName string

func (n hostName) covers(host string) bool {
	if domain := string(n); domain[0] == '.' {
		return len(host) > len(domain) && strings.HasSuffix(host, domain)
	}
	return host == string(n)
}

func newGuard(origins, hosts []string) (guard, error) {
	var g guard
	for _, allowed := range origins {
		o, ok := parseOrigin(strings.TrimSuffix(allowed, "/"))
		name, valid := newHostName(o.host)
		if !ok || !valid {
			return g, errors.New("mcphttp: an allowed origin is not of the form scheme://host or scheme://host:port, in ASCII")
		}
		g.origins = append(g.origins, origin{o.scheme, o.port, name})
	}
	for _, allowed := range hosts {
		name, valid := newHostName(hostname(allowed))
		if !valid || strings.ContainsAny(allowed, "/@") { // of a URL, hostname may return the scheme
			return g, errors.New("mcphttp: an allowed host is no host name in ASCII")
		}
		g.hosts = append(g.hosts, name)
	}
	return g, nil
}

// newHostName returns the allowed host that a name, or *. and a domain, stands
// for. Names in other scripts are sent in their xn-- form and would never match.
func newHostName(host string) (hostName, bool) {
	rest, wild := strings.CutPrefix(host, "*.")
	if rest == "" || strings.ContainsAny(rest, "*/@ ") || rest[0] == '.' || !isASCII(rest) {
		return "", false
	}
	if wild {
		return hostName("." + rest), true
	}
	return hostName(rest), true
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
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
		return slices.ContainsFunc(g.hosts, func(n hostName) bool { return n.covers(host) })
	default:
		return !local
	}
}

func (g guard) originAllowed(r *http.Request, value string) bool {
	o, ok := parseOrigin(value)
	switch {
	case !ok:
		return false // "null" too
	case g.origins != nil:
		return slices.ContainsFunc(g.origins, func(allowed origin) bool {
			return o.scheme == allowed.scheme && o.port == allowed.port && allowed.host.covers(o.host)
		})
	default:
		return onLoopback(r) && isLoopback(o.host) && (o.scheme == "http" || o.scheme == "https")
	}
}

// sentOrigin is an Origin as a client sends it, with the port written out.
type sentOrigin struct{ scheme, host, port string }

// parseOrigin parses a serialized origin: scheme, host and maybe port, nothing
// else (RFC 6454, section 6.2).
func parseOrigin(value string) (sentOrigin, bool) {
	u, err := url.Parse(value)
	if err != nil || u.Scheme == "" || u.Hostname() == "" || u.User != nil || u.Path != "" ||
		u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return sentOrigin{}, false
	}
	o := sentOrigin{strings.ToLower(u.Scheme), hostname(u.Host), u.Port()}
	if o.port == "" {
		o.port = map[string]string{"http": "80", "https": "443"}[o.scheme]
	}
	return o, true
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
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return tcp.IP.IsLoopback()
	}
	port, err := netip.ParseAddrPort(addr.String()) // of a listener with addresses of its own
	return err == nil && port.Addr().Unmap().IsLoopback()
}
