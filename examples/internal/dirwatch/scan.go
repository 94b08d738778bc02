// Scanning: what is in the directory, and which directories are watched.

package dirwatch

import (
	"os"
	"path/filepath"
	"strings"
)

// add takes up what is at a path below the directory: a file, or a directory with
// all that is in it. The caller holds the lock.
func (d *Dir) add(rel string, b *batch) {
	info, err := d.root.Lstat(rel)
	switch {
	case err != nil: // it is gone again
	case info.Mode().IsRegular():
		d.addFile(rel, b)
	case info.IsDir():
		d.addDir(rel, b)
	}
}

func (d *Dir) addFile(rel string, b *batch) {
	if len(d.files) >= MaxFiles {
		d.leaveOut(rel)
		return
	}
	uri := d.uri(rel)
	d.touch(uri, b)
	d.files[uri] = rel
}

// addDir takes up directories level by level, so that a limit leaves out what is
// deepest.
func (d *Dir) addDir(rel string, b *batch) {
	for level := []string{rel}; len(level) > 0; {
		var next []string
		for _, dir := range level {
			if len(d.dirs) >= MaxDirs {
				d.leaveOut(dir)
				return
			}
			// Watch first, read second: what is created in between is found at least
			// once.
			if d.watch(dir) {
				b.dirs = append(b.dirs, dir)
				next = append(next, d.read(dir, b)...)
			}
		}
		level = next
	}
}

// read takes up the files of one directory and returns its sub-directories.
func (d *Dir) read(rel string, b *batch) (subdirs []string) {
	dir, err := d.root.Open(rel)
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	for err == nil {
		var entries []os.DirEntry
		entries, err = dir.ReadDir(256)
		for _, entry := range entries {
			path := filepath.Join(rel, entry.Name())
			switch {
			case hidden(path):
			case entry.Type().IsRegular():
				d.addFile(path, b)
			case entry.IsDir():
				subdirs = append(subdirs, path)
			}
		}
	}
	return subdirs
}

// watch watches one directory and reports whether it does. A directory that
// cannot be watched is left out, since its files would be listed and never
// updated.
func (d *Dir) watch(rel string) bool {
	path := filepath.Join(d.path, rel)
	if err := d.notify.Add(path); err != nil {
		if !os.IsNotExist(err) {
			d.log.Warn("dirwatch: directory left out", "dir", path, "err", err)
		}
		return false
	}
	// The watch went by the path's name, and that could have been exchanged for a
	// link to somewhere else.
	named, err := os.Stat(path)
	if err == nil {
		inside, lerr := d.root.Lstat(rel)
		if lerr == nil && inside.IsDir() && os.SameFile(named, inside) {
			d.dirs[rel] = struct{}{}
			return true
		}
	}
	_ = d.notify.Remove(path)
	return false
}

// forget drops the file at a path below the directory, or the directory with all
// that was in it and the watches. The caller holds the lock.
func (d *Dir) forget(rel string, b *batch) {
	uri := d.uri(rel)
	if _, ok := d.files[uri]; ok {
		d.touch(uri, b)
		delete(d.files, uri)
		return
	}
	if _, ok := d.dirs[rel]; !ok {
		return
	}
	for dir := range d.dirs {
		if within(dir, rel) {
			delete(d.dirs, dir)
			// An error says that the watch went with its directory.
			_ = d.notify.Remove(filepath.Join(d.path, dir))
		}
	}
	for uri, file := range d.files {
		if within(file, rel) {
			d.touch(uri, b)
			delete(d.files, uri)
		}
	}
}

// within reports whether a path is a tree's root or in it.
func within(path, tree string) bool {
	return tree == "." || path == tree || strings.HasPrefix(path, tree+string(filepath.Separator))
}

// leaveOut says once that not everything is served.
func (d *Dir) leaveOut(rel string) {
	if !d.full {
		d.full = true
		d.log.Warn("dirwatch: limit reached, the rest is left out",
			"max_files", MaxFiles, "max_dirs", MaxDirs, "first", filepath.Join(d.path, rel))
	}
}
