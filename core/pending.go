// Pending sets: what a subscription still has to be told. A set holds each of
// the filter's members at most once, so it is bounded by the filter and not by
// how often something is published.

package core

import "slices"

// pending is guarded by its subscription's lock.
type pending struct {
	kinds uint8        // bit k: the list kind k
	first uint64       // bit i: the filter's URI i, for i < 64
	more  *morePending // nil where the filter has 64 URIs or fewer and no Matcher brought others
}

type morePending struct {
	words []uint64 // bit i of word w: the filter's URI 64(w+1) + i
	below []string // resources covered by a subscribed URI, sorted
	last  uint64   // the change that was last marked here
}

// maxBelow is how many resources below its subscribed URIs a subscription keeps
// apart; what comes beyond them is reported as the subscribed URI itself.
const maxBelow = 64

func newPending(uris int) pending {
	var p pending
	if uris > 64 {
		p.more = &morePending{words: make([]uint64, (uris-1)/64)}
	}
	return p
}

// empty reports whether nothing is pending.
func (p *pending) empty() bool {
	if p.kinds != 0 || p.first != 0 {
		return false
	}
	return p.more == nil || len(p.more.below) == 0 && !slices.ContainsFunc(p.more.words, func(w uint64) bool { return w != 0 })
}

// word returns the word that holds the bit of the filter's URI i.
func (p *pending) word(i int32) *uint64 {
	if i < 64 {
		return &p.first
	}
	return &p.more.words[i/64-1]
}

// words returns how many words of URIs there are.
func (p *pending) words() int {
	if p.more == nil {
		return 1
	}
	return 1 + len(p.more.words)
}

// The mark methods add to the set and report whether that changed it: where it
// did not, an unsent notification already stands for the change.

func (p *pending) markKind(k Kind) bool {
	bit := uint8(1) << k
	changed := p.kinds&bit == 0
	p.kinds |= bit
	return changed
}

func (p *pending) markURI(i int32) bool {
	word, bit := p.word(i), uint64(1)<<(i%64)
	changed := *word&bit == 0
	*word |= bit
	return changed
}

// isNew reports whether the change with the given number was not the last one
// marked below a subscribed URI. Where several of them cover a change, it is one
// all the same.
func (p *pending) isNew(change uint64) bool {
	if p.more == nil {
		p.more = &morePending{}
	}
	last := p.more.last
	p.more.last = change
	return change != last
}

// markBelow adds the resource uri, which the filter's URI i covers.
func (p *pending) markBelow(i int32, uri string, maxLength int) bool {
	at, found := slices.BinarySearch(p.more.below, uri)
	switch {
	case found:
		return false
	case len(p.more.below) == maxBelow || len(uri) > maxLength:
		return p.markURI(i)
	}
	p.more.below = slices.Insert(p.more.below, at, uri)
	return true
}

// The take methods remove from the set and return what was there.

func (p *pending) takeKinds() uint8 {
	kinds := p.kinds
	p.kinds = 0
	return kinds
}

func (p *pending) takeWord(w int) uint64 {
	word := p.word(int32(w) * 64)
	set := *word
	*word = 0
	return set
}

func (p *pending) takeBelow() []string {
	if p.more == nil {
		return nil
	}
	below := p.more.below
	p.more.below = nil
	return below
}
