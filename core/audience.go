// Audiences: publishing to some principals only.

package core

import (
	"slices"
	"strings"
)

// Audience says whose subscriptions a change is for. It is data and no function,
// so that it can travel to other nodes. The zero Audience is everybody.
type Audience struct {
	principals []string // nil: everybody
	prefix     *string  // or all principals whose names start with it
}

// Principals is the audience of the named principals. Without names it is
// nobody.
func Principals(names ...string) Audience {
	names = append([]string{}, names...)
	slices.Sort(names)
	return Audience{principals: slices.Compact(names)}
}

// PrincipalPrefix is the audience of all principals whose names start with the
// prefix: those of a tenant, where names are tenant/user. The empty prefix is
// every principal, but no subscription without one.
func PrincipalPrefix(prefix string) Audience {
	return Audience{principals: []string{}, prefix: &prefix}
}

// Everyone reports whether the audience is everybody.
func (a Audience) Everyone() bool { return a.principals == nil }

// Includes reports whether the principal belongs to the audience. Nobody, the
// empty name, belongs to the zero Audience alone.
func (a Audience) Includes(principal string) bool {
	switch {
	case a.Everyone():
		return true
	case principal == "":
		return false
	case a.prefix != nil:
		return strings.HasPrefix(principal, *a.prefix)
	default:
		return slices.Contains(a.principals, principal)
	}
}
