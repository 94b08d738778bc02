// Audiences: publishing to some principals only.

package core

import (
	"iter"
	"slices"
	"strconv"
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
// prefix: those of the tenant acme for "acme/", where names are tenant/user. The
// separator belongs to it: "acme" is also the audience of acme2/bob. The empty
// prefix is every principal, but no subscription without one.
func PrincipalPrefix(prefix string) Audience {
	return Audience{principals: []string{}, prefix: &prefix}
}

// Everyone reports whether the audience is everybody.
func (a Audience) Everyone() bool { return a.principals == nil }

// nobody reports whether the audience has no names and no prefix.
func (a Audience) nobody() bool { return !a.Everyone() && len(a.principals) == 0 && a.prefix == nil }

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

// parts yields audiences that are the audience together, each with names of about
// size bytes at most.
func (a Audience) parts(size int) iter.Seq[Audience] {
	return func(yield func(Audience) bool) {
		rest, total := a.principals, 0
		for i, name := range a.principals {
			total += len(name)
			if total > size && i > 0 {
				done := len(a.principals) - len(rest)
				if !yield(Audience{principals: rest[:i-done]}) {
					return
				}
				rest, total = a.principals[i:], len(name)
			}
		}
		yield(Audience{principals: rest, prefix: a.prefix})
	}
}

// key returns what two equal audiences have in common.
func (a Audience) key() string {
	switch {
	case a.Everyone():
		return ""
	case a.prefix != nil:
		return "^" + *a.prefix
	}
	var b strings.Builder
	b.WriteByte('=')
	for _, name := range a.principals {
		b.WriteString(strconv.Quote(name))
	}
	return b.String()
}
