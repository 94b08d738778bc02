// Who asks, and what they may listen to.
//
// Authentication is the job of a middleware, of the framework's kind, that runs
// before the listen handler and knows nothing of it. Authorization is the hub's
// Authorizer: it sees the principal and the whole filter.

package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

// token is what a client shows, and what it is good for.
type token struct {
	secret    string
	principal string
	lifetime  time.Duration // from its first listen on; zero: no end
}

// tokens is the flag's value: PRINCIPAL=TOKEN or PRINCIPAL=TOKEN:LIFETIME, comma-separated.
type tokens []token

// String returns nothing: tokens do not belong into usage texts.
func (t *tokens) String() string { return "" }

// Set reads the flag.
func (t *tokens) Set(value string) error {
	*t = nil
	lifetimes := make(map[string]time.Duration)
	for item := range strings.SplitSeq(value, ",") {
		principal, secret, ok := strings.Cut(item, "=")
		if !ok || principal == "" {
			return fmt.Errorf("%q is not PRINCIPAL=TOKEN", item)
		}
		var lifetime time.Duration
		if i := strings.LastIndexByte(secret, ':'); i >= 0 {
			d, err := time.ParseDuration(secret[i+1:])
			if err != nil || d <= 0 {
				return fmt.Errorf("%q does not end with a lifetime", item)
			}
			secret, lifetime = secret[:i], d
		}
		if secret == "" {
			return fmt.Errorf("%q has no token", item)
		}
		if other, known := lifetimes[principal]; known && other != lifetime {
			return fmt.Errorf("tokens of %q have different lifetimes", principal)
		}
		lifetimes[principal] = lifetime
		*t = append(*t, token{secret: secret, principal: principal, lifetime: lifetime})
	}
	return nil
}

var errNoToken = errors.New("a bearer token is needed")

// authenticate returns the principal of an Authorization header.
func (t tokens) authenticate(header string) (principal string, err error) {
	scheme, secret, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", errNoToken
	}
	for _, known := range t {
		if subtle.ConstantTimeCompare([]byte(known.secret), []byte(strings.TrimSpace(secret))) == 1 {
			return known.principal, nil
		}
	}
	return "", errNoToken
}

// challenge is the WWW-Authenticate header of a 401.
const challenge = `Bearer realm="everything"`

// private is the flag's value: PRINCIPAL:PREFIX, comma-separated.
type private []owner

type owner struct{ principal, prefix string }

func (p *private) String() string { return "" }

// Set reads the flag.
func (p *private) Set(value string) error {
	*p = nil
	for item := range strings.SplitSeq(value, ",") {
		principal, prefix, ok := strings.Cut(item, ":")
		if !ok || principal == "" || prefix == "" {
			return fmt.Errorf("%q is not PRINCIPAL:PREFIX", item)
		}
		*p = append(*p, owner{principal, prefix})
	}
	return nil
}

// authorizer decides by the URI alone whether somebody may listen, never by
// whether there is such a resource: the answer does not tell.
type authorizer struct {
	private   private
	lifetimes map[string]time.Duration // by principal

	mu      sync.Mutex
	expires map[string]time.Time // by principal, of those who have listened
}

func newAuthorizer(t tokens, p private) *authorizer {
	a := &authorizer{private: p, lifetimes: make(map[string]time.Duration), expires: make(map[string]time.Time)}
	for _, known := range t {
		a.lifetimes[known.principal] = known.lifetime
	}
	return a
}

// expiry returns when the principal's token ends, the zero time for never.
func (a *authorizer) expiry(principal string) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, listened := a.expires[principal]
	if lifetime := a.lifetimes[principal]; !listened && lifetime > 0 {
		at = time.Now().Add(lifetime)
		a.expires[principal] = at
	}
	return at
}

var errForbidden = errors.New("a resource is somebody else's")

// Authorize implements [core.Authorizer].
func (a *authorizer) Authorize(_ context.Context, principal string, filter core.Filter) (core.Grant, error) {
	expires := a.expiry(principal)
	if !expires.IsZero() && !time.Now().Before(expires) {
		return core.Grant{}, mcphttp.Deny(http.StatusUnauthorized, challenge)
	}
	for _, uri := range filter.ResourceSubscriptions {
		for _, o := range a.private {
			if strings.HasPrefix(uri, o.prefix) && principal != o.principal {
				return core.Grant{}, errForbidden
			}
		}
	}
	return core.Grant{Until: expires}, nil
}

// The middleware of net/http and of everything that speaks its language. echo's
// and gin's are with their mounts.

type principalKey struct{}

// authentication refuses requests without a known token, and puts the principal
// of the others into their context.
func (t tokens) authentication(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		principal, err := t.authenticate(r.Header.Get("Authorization"))
		if err != nil {
			w.Header().Set("WWW-Authenticate", challenge)
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey{}, principal)))
	})
}

// principal returns who authentication found.
func principal(r *http.Request) string {
	p, _ := r.Context().Value(principalKey{}).(string)
	return p
}
