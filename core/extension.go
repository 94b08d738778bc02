// Extensions: families of notifications that the protocol itself does not have.
// An application registers one, and it rides the stream like the protocol's own:
// asked for in the filter, authorized, acknowledged, pending as a set.

package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Family is what a family of notifications is on the wire: what the two sides of a
// stream have to agree on.
type Family struct {
	// Member is the filter's member: an array of keys, which are strings. It is what
	// the acknowledgment repeats.
	Member string

	// Method is the notification's method, notifications/… .
	Method string

	// Key is the member of the notification's params that holds its key.
	Key string

	// Capability is the extension's identifier: the client must name it among
	// its capabilities' extensions, and the hub advertises it. Empty means that none is
	// needed.
	Capability string
}

// Extension is a family of notifications that an application registers with a hub
// ([Config]). Each notification is about a key, and carries what has become of
// it: of what is not sent yet, a newer value of a key replaces the older one. It is
// published with [ValueChanged].
//
// The hooks are called from many goroutines.
type Extension struct {
	Family

	// Authorize decides whether a principal may listen to the keys: it is called
	// before anything is answered, after the hub's Authorizer, for the principal of
	// the grant. keys are those that were asked for, each once, at least one of them.
	//
	// An error or a panic refuses the whole request. Whatever it says, the client is told the
	// same: that a key is somebody else's and that there is none read alike. A hook
	// should take as long for the one as for the other.
	Authorize func(ctx context.Context, principal string, keys []string) error

	// Public says in place of Authorize that everybody may listen to every key.
	Public bool

	// Recheck makes the hub call Authorize again as it does with [Grant.Recheck], and
	// together with that. An error ends the subscription for the reason revoked.
	Recheck bool

	// Encode makes the payload of a key's value, once for each publish, however many
	// listen. By default it is what encoding/json makes of the value, without a
	// version.
	Encode func(key string, value any) (Payload, error)

	// Current returns the value that a key has now, as it would be published. A hub
	// with a Broker needs it: where messages of other nodes may have been missed, what
	// became of the keys that somebody here listens to is read again. It is called
	// for each key and each principal that listens to it; where the extension is
	// Public, once for each key and without a principal. Where a key has no value, or
	// none for the principal, it returns [ErrNoValue]. After any other error, after
	// 10 s, and where its value is older than the one that is known to have been
	// published, it is asked again, until there is an answer or nobody listens.
	Current func(ctx context.Context, principal, key string) (value any, err error)

	// MaxPayload is the largest payload in bytes: 256 KiB by default. What is
	// pending for a stream is at most one payload for each of its keys, shared by
	// all who listen to it.
	MaxPayload int
}

// DefaultMaxPayload is the largest payload of an extension, in bytes.
const DefaultMaxPayload = 256 << 10

// family is a registered extension.
type family struct {
	Extension
	head string // its notifications, up to the id
}

// reserved are the names that a family may not take: those of the protocol.
var (
	reservedMembers = []string{filterTools, filterPrompts, filterResources, filterURIs}
	reservedMethods = []string{
		MethodAcknowledged, MethodToolsListChanged, MethodPromptsListChanged, MethodResourcesListChanged, MethodResourceUpdated,
		MethodCancelled, "notifications/progress", "notifications/message", "notifications/initialized",
		"notifications/roots/list_changed", "notifications/elicitation/complete",
	}
)

// maxNameLength is the longest name of a family, in bytes.
const maxNameLength = 128

// isName reports whether s can be a family's name on the wire: letters, digits and
// the signs that identifiers, methods and members have.
func isName(s string) bool {
	return s != "" && len(s) <= maxNameLength && strings.IndexFunc(s, func(r rune) bool {
		isAlphanumeric := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !isAlphanumeric && !strings.ContainsRune("._-/", r)
	}) < 0
}

// Validate returns what is wrong with the names, nil for nothing: a name is missing,
// has other signs than letters, digits, ".", "_", "-" and "/", has more than 128
// bytes or is the protocol's own, or the method is not notifications/… .
func (f Family) Validate() error {
	prefix, name, _ := strings.Cut(f.Capability, "/")
	_, kind, _ := strings.Cut(f.Method, "notifications/")
	switch {
	case !isName(f.Member) || slices.Contains(reservedMembers, f.Member):
		return errors.New("its filter member is no name, or the protocol's own")
	case !isName(f.Method) || kind == "" || !strings.HasPrefix(f.Method, "notifications/") || slices.Contains(reservedMethods, f.Method):
		return errors.New("its method is no notification's, or the protocol's own")
	case !isName(f.Key) || f.Key == "_meta":
		return errors.New("it does not say which member of the params is the key")
	case f.Capability != "" && (!isName(f.Capability) || prefix == "" || name == "" || strings.Contains(name, "/")):
		return errors.New("its capability is no identifier with a prefix")
	}
	return nil
}

// newFamilies returns the registered extensions, or what is wrong with them.
func newFamilies(config Config) ([]*family, error) {
	families := make([]*family, 0, len(config.Extensions))
	for _, x := range config.Extensions {
		if err := x.Validate(); err != nil {
			return nil, fmt.Errorf("core: extension %q: %w", x.Method, err)
		}
		for _, other := range families {
			if x.Member == other.Member || x.Method == other.Method {
				return nil, fmt.Errorf("core: extension %q: its member or its method is another one's", x.Method)
			}
		}
		switch {
		case x.Authorize == nil && !x.Public:
			return nil, fmt.Errorf("core: extension %q: it has no Authorize and is not Public", x.Method)
		case x.Authorize != nil && x.Public:
			return nil, fmt.Errorf("core: extension %q: it has an Authorize and is Public", x.Method)
		case x.Recheck && x.Public:
			return nil, fmt.Errorf("core: extension %q: it is Public, there is nothing to check again", x.Method)
		case x.MaxPayload < 0:
			return nil, fmt.Errorf("core: extension %q: the limit on payloads is negative", x.Method)
		case config.Broker != nil && (x.Current == nil || x.Encode == nil):
			return nil, fmt.Errorf("core: extension %q: with a Broker it needs Current, and Encode for the versions", x.Method)
		}
		if x.MaxPayload == 0 {
			x.MaxPayload = DefaultMaxPayload
		}
		families = append(families, &family{Extension: x, head: notificationHead + x.Method + notificationMeta})
	}
	return families, nil
}

// familyOf returns the family with the given method, nil where there is none.
func (h *Hub) familyOf(method string) *family {
	for _, f := range h.families {
		if f.Method == method {
			return f
		}
	}
	return nil
}

// Extensions returns the families that the hub delivers: none unless it serves.
func (h *Hub) Extensions() []Family {
	if h.Mode() != ModeServe {
		return nil
	}
	families := make([]Family, len(h.families))
	for i, f := range h.families {
		families[i] = f.Family
	}
	return families
}

// honor returns the part of the requested filter that the hub delivers.
func (h *Hub) honor(requested Filter) Filter {
	honored := h.Capabilities().Honor(requested)
	if len(requested.Keys) == 0 || h.Mode() != ModeServe {
		return honored
	}
	for _, f := range h.families {
		if keys := requested.Keys[f.Member]; len(keys) > 0 {
			if honored.Keys == nil {
				honored.Keys = make(map[string][]string)
			}
			honored.Keys[f.Member] = keys
		}
	}
	return honored
}

// checkCapabilities fails with an [*Error] where the filter asks for families
// whose capability the client has not.
func checkCapabilities(families []*family, requested Filter, capabilities json.RawMessage) error {
	var missing map[string]struct{}
	for _, f := range families {
		if f.Capability != "" && len(requested.Keys[f.Member]) > 0 {
			if missing == nil {
				missing = make(map[string]struct{})
			}
			missing[f.Capability] = struct{}{}
		}
	}
	if missing == nil {
		return nil
	}
	var extensions []byte
	err := members(capabilities, func(name string, value []byte) error {
		if name == "extensions" {
			extensions = value
		}
		return nil
	})
	if err == nil && isObject(extensions) {
		err = members(extensions, func(name string, value []byte) error {
			if isObject(value) {
				delete(missing, name)
			}
			return nil
		})
	}
	switch {
	case err != nil:
		return notTwice("the client capabilities", err)
	case len(missing) == 0:
		return nil
	}
	e := refuse(CodeMissingCapability, RefusedCapability, "the client lacks a capability that the request needs")
	data := []byte(`{"requiredCapabilities":{"extensions":{`)
	for i, name := range slices.Sorted(maps.Keys(missing)) {
		data = append(data, ","[:min(i, 1)]...)
		data = appendString(data, name)
		data = append(data, ":{}"...)
	}
	data = append(data, "}}}"...)
	e.Data = data
	return e
}

// authorizeKeys asks the families whose keys are asked for, and puts into the grant
// what of them is to be asked again.
func (h *Hub) authorizeKeys(ctx context.Context, grant *Grant, o Opening) error {
	if len(o.Request.Filter.Keys) == 0 {
		return nil
	}
	principal := o.Principal
	if grant.Principal != "" {
		principal = grant.Principal
	}
	for _, f := range h.families {
		keys := o.Request.Filter.Keys[f.Member]
		if len(keys) == 0 || f.Public {
			continue
		}
		ask := func(ctx context.Context) error { return f.Authorize(ctx, principal, slices.Clone(keys)) }
		err := h.hook("Extension.Authorize", func() error { return ask(ctx) })
		if err != nil {
			return h.refusedBy(&keysRefusedError{err}, CodeInvalidRequest, RefusedAuth, "not allowed")
		}
		if f.Recheck {
			before := grant.Recheck
			grant.Recheck = func(ctx context.Context) error {
				if before != nil {
					if err := before(ctx); err != nil {
						return err
					}
				}
				return ask(ctx)
			}
		}
	}
	return nil
}

// keysRefusedError keeps what a hook says of keys from whoever would answer with it: a
// code, a message or a status of its own would tell a foreign key from an unknown
// one. So would it that the hook panicked over one of them, which is in the log.
type keysRefusedError struct{ err error }

func (r *keysRefusedError) Error() string { return r.err.Error() }

func (r *keysRefusedError) Is(target error) bool {
	return target != errHookPanicked && errors.Is(r.err, target)
}

// advertise adds the families' capabilities to the protocol's ServerCapabilities.
func (h *Hub) advertise(capabilities map[string]any) {
	extensions := make(map[string]struct{})
	for _, f := range h.Extensions() {
		if f.Capability != "" {
			extensions[f.Capability] = struct{}{}
		}
	}
	if len(extensions) > 0 {
		capabilities["extensions"] = extensions
	}
}
