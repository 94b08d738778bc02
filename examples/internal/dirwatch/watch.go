// Watching: from file system events to changes.

package dirwatch

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/fsnotify/fsnotify"
	"github.com/mcplisten/mcplisten/core"
)

var _ core.Watcher = (*Dir)(nil)

// Start starts to publish updates of the file with the given URI. A URI that is
// not listed is refused, for whatever reason it is not.
//
// It takes no watch of its own: the operating system watches directories, and
// they are watched all the time, since their lists are. A watch on the file
// itself would be lost with the first editor that saves to a new file and
// renames it over the old one.
func (d *Dir) Start(_ context.Context, uri string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.files[uri]; !ok {
		return &core.Error{
			Code:    core.CodeInvalidParams,
			Message: "resource not found",
			Refusal: core.RefusedWatch,
			Err:     ErrNotFound,
		}
	}
	d.listened[uri] = struct{}{}
	return nil
}

// Stop ends what Start started.
func (d *Dir) Stop(uri string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.listened, uri)
}

// Run calls publish with the changes of the directory until ctx ends or the
// directory is closed: the list of resources when a file came or went, and each
// file listened to that was written, replaced, removed or brought back. The lists
// that List and Read work on are up to date when publish is called.
//
// After the directory itself was removed or renamed, no resources are left and
// no more changes come, even if a directory of that name appears again.
func (d *Dir) Run(ctx context.Context, publish func(changes ...core.Change)) {
	for {
		b := newBatch()
		select {
		case <-ctx.Done():
			return
		case <-d.overflow:
			d.log.Warn("dirwatch: events were lost, reading the directory again", "dir", d.path)
			d.mu.Lock()
			b.lost = true
			d.rescan(b)
		case ev, ok := <-d.notify.Events:
			if !ok {
				return
			}
			d.mu.Lock()
			d.handle(ev, b)
			for range len(d.notify.Events) {
				d.handle(<-d.notify.Events, b)
			}
			if d.misnamed(b) {
				d.rescan(b)
			}
		}
		changes := d.changes(b)
		d.mu.Unlock()
		if len(changes) > 0 {
			publish(changes...)
		}
	}
}

// readErrors takes the watcher's errors from its channel, in a goroutine of its
// own: the watcher may hold its lock until somebody does, and Run may be waiting
// for that lock.
func (d *Dir) readErrors() {
	for err := range d.notify.Errors {
		if !errors.Is(err, fsnotify.ErrEventOverflow) {
			d.log.Warn("dirwatch: watching", "err", err)
			continue
		}
		select {
		case d.overflow <- struct{}{}:
		default: // one rescan is enough for both
		}
	}
}

// A batch is what a number of events have changed.
type batch struct {
	touched map[string]bool // URIs, and whether they were listed before the batch
	dirs    []string        // directories that were added
	lost    bool            // events were lost
}

func newBatch() *batch { return &batch{touched: make(map[string]bool)} }

// touch notes that the file with the given URI is about to change.
func (d *Dir) touch(uri string, b *batch) {
	if _, ok := b.touched[uri]; !ok {
		_, listed := d.files[uri]
		b.touched[uri] = listed
	}
}

// changes returns what there is to publish after a batch.
func (d *Dir) changes(b *batch) []core.Change {
	list := b.lost
	var updated []core.Change
	for uri, before := range b.touched {
		_, now := d.files[uri]
		list = list || before != now
		if _, ok := d.listened[uri]; ok && !b.lost {
			updated = append(updated, core.ResourceUpdated(uri))
		}
	}
	if b.lost {
		for uri := range d.listened {
			updated = append(updated, core.ResourceUpdated(uri))
		}
	}
	if list {
		return append([]core.Change{core.ResourcesListChanged()}, updated...)
	}
	return updated
}

// handle brings the lists up to date after one event. An event only says where to
// look: what counts is what is found there now. So events that are late, doubled
// or named by an old path do no harm.
func (d *Dir) handle(ev fsnotify.Event, b *batch) {
	rel, err := filepath.Rel(d.path, ev.Name)
	if err != nil || hidden(rel) || d.gone || ev.Op == fsnotify.Chmod {
		return
	}
	moved := ev.Has(fsnotify.Create) || ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename)
	if !moved {
		if _, ok := d.dirs[rel]; ok {
			return // some systems report a new entry as a write to the directory, too
		}
		if uri := d.uri(rel); d.files[uri] != "" {
			d.touch(uri, b)
			return
		}
	}
	if rel == "." {
		if ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename) {
			d.log.Warn("dirwatch: the directory was removed or renamed", "dir", d.path)
			d.gone = true
			d.forget(".", b)
		}
		return
	}
	// A directory is always taken up anew, even one that is known: another may
	// have taken its place, with watches that belong to its old path.
	d.forget(rel, b)
	// What is in a directory that is not known is found when that is taken up.
	if _, ok := d.dirs[filepath.Dir(rel)]; ok {
		d.add(rel, b)
	}
}

// misnamed reports whether a watch that was added in the batch is not known by its
// path: its directory was found under a new name before the event that it lost its
// old one, and the watcher still has it under that.
func (d *Dir) misnamed(b *batch) bool {
	if len(b.dirs) == 0 {
		return false
	}
	named := make(map[string]bool)
	for _, path := range d.notify.WatchList() {
		named[path] = true
	}
	return slices.ContainsFunc(b.dirs, func(rel string) bool {
		_, known := d.dirs[rel]
		return known && !named[filepath.Join(d.path, rel)]
	})
}

// rescan starts from nothing.
func (d *Dir) rescan(b *batch) {
	d.forget(".", b)
	if !d.gone {
		d.add(".", b)
	}
}
