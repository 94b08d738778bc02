// Sub-resources: the shipped alternative to matching URIs exactly.

package core

import "strings"

// SubResources is a [Matcher] that lets a subscription to a resource also hear
// of the resources below it, at the boundaries of path segments: /a covers /a,
// /a/b and /a/b/c, never /ab. Nothing is decoded or normalized, and a query or
// fragment belongs to its whole URI: /a does not cover /a?x.
//
// A subscriber is told the URI that changed. When more of them are pending than
// a subscription keeps, it is told the URI that it subscribed to instead, which
// then stands for all below it.
type SubResources struct{}

// Cover yields uri and every URI above it.
func (SubResources) Cover(uri string, yield func(subscribed string) bool) {
	if !yield(uri) {
		return
	}
	end := len(uri)
	if i := strings.IndexAny(uri, "?#"); i >= 0 {
		end = i
	}
	root := rootLength(uri[:end])
	for i := end - 1; i >= root; i-- {
		if uri[i] != '/' {
			continue
		}
		// Both spellings of the parent, /a/ and /a, are subscribed to in practice.
		// Of two slashes in a row, the second yields what lies between them.
		between := i+1 < end && uri[i+1] == '/'
		if i+1 < len(uri) && !between && !yield(uri[:i+1]) {
			return
		}
		if i > 0 && !yield(uri[:i]) {
			return
		}
	}
}

// rootLength returns the index from which a slash in uri separates path
// segments: behind the // of an authority, if there is one.
func rootLength(uri string) int {
	if i := strings.Index(uri, "://"); i >= 0 && !strings.Contains(uri[:i], "/") {
		return i + len("://")
	}
	return 0
}
