// Package dirwatch makes resources of the regular files of a directory: it lists
// and reads them, and publishes their changes to a hub.
//
// Sub-directories are included. Left out are hidden files and directories (a name
// that starts with a dot), everything that is no regular file, symbolic links
// whether or not they lead out of the directory, and whatever comes after the
// first [MaxFiles] files and [MaxDirs] directories.
//
// A resource's URI is the file URL of its absolute path. URIs are never taken
// apart: one that was not listed, byte for byte, does not exist. So there is
// nothing to gain from "..", from other encodings of the same path, or from a
// host. Files are opened through an [os.Root] on top of that.
package dirwatch

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

const (
	// MaxFiles is how many files of a directory become resources.
	MaxFiles = 10_000
	// MaxDirs is how many directories are watched, the first one included. Each
	// takes one watch of the operating system.
	MaxDirs = 1_000
	// MaxFileSize is how many bytes a file may have to be read.
	MaxFileSize = 4 << 20
)

var (
	// ErrNotFound says that no resource has the URI. It does not say why.
	ErrNotFound = errors.New("dirwatch: resource not found")
	// ErrTooLarge says that a file is larger than MaxFileSize.
	ErrTooLarge = errors.New("dirwatch: file is too large")
)

// Dir is a directory whose files are resources. It is safe for concurrent use,
// and it is a core.Watcher.
type Dir struct {
	path     string // absolute, without symbolic links
	root     *os.Root
	notify   *fsnotify.Watcher
	log      *slog.Logger
	overflow chan struct{} // has a value after events were lost

	mu       sync.Mutex
	gone     bool                // the directory itself was removed or renamed
	full     bool                // files or directories were left out
	dirs     map[string]struct{} // watched directories, by path below the directory
	files    map[string]string   // resources: from URI to path below the directory
	listened map[string]struct{} // URIs between Start and Stop
}

// File is one resource.
type File struct {
	URI  string
	Name string // slash-separated path below the directory
}

// New opens a directory and starts to watch it. It fails if path is not a
// directory or cannot be watched. A nil logger logs nothing.
func New(path string, log *slog.Logger) (*Dir, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("dirwatch: %w", err)
	}
	// The user may name the directory by a link. Its real path makes the URIs, so
	// that they stay true when the link is changed.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, fmt.Errorf("dirwatch: %w", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("dirwatch: %w", err)
	}
	// What arrives while a batch of events is handled waits in the buffer and is
	// the next batch.
	notify, err := fsnotify.NewBufferedWatcher(1024)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("dirwatch: %w", err), root.Close())
	}
	d := &Dir{
		path:     path,
		root:     root,
		notify:   notify,
		log:      log,
		overflow: make(chan struct{}, 1),
		dirs:     make(map[string]struct{}),
		files:    make(map[string]string),
		listened: make(map[string]struct{}),
	}
	go d.readErrors()
	d.add(".", newBatch())
	if len(d.dirs) == 0 {
		return nil, errors.Join(fmt.Errorf("dirwatch: cannot watch %s", path), d.Close())
	}
	return d, nil
}

// Close ends all watches and with them Run.
func (d *Dir) Close() error {
	return errors.Join(d.notify.Close(), d.root.Close())
}

// Path returns the absolute path of the directory.
func (d *Dir) Path() string { return d.path }

// List returns all resources in the order of their names.
func (d *Dir) List() []File {
	d.mu.Lock()
	list := make([]File, 0, len(d.files))
	for uri, rel := range d.files {
		list = append(list, File{URI: uri, Name: filepath.ToSlash(rel)})
	}
	d.mu.Unlock()
	slices.SortFunc(list, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Read returns what is in the file with the given URI. The errors are ErrNotFound,
// ErrTooLarge and those of the file system.
func (d *Dir) Read(uri string) ([]byte, error) {
	d.mu.Lock()
	rel, ok := d.files[uri]
	d.mu.Unlock()
	if !ok {
		return nil, ErrNotFound
	}
	// A named pipe may have taken the file's place: opening it must not block.
	f, err := d.root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		// Only a path that is gone, or that now leads out of the directory, is "not
		// found"; a file without permission to read it is another matter.
		if errors.Is(err, os.ErrPermission) {
			return nil, err
		}
		return nil, ErrNotFound
	}
	defer func() { _ = f.Close() }()
	opened, err := f.Stat()
	if err != nil {
		return nil, err
	}
	// So may a symbolic link, which os.Root follows where it stays inside.
	named, err := d.root.Lstat(rel)
	if err != nil || !named.Mode().IsRegular() || !os.SameFile(opened, named) {
		return nil, ErrNotFound
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxFileSize {
		return nil, ErrTooLarge
	}
	return data, nil
}

// uri returns the one URI of the file at a path below the directory.
func (d *Dir) uri(rel string) string {
	path := filepath.ToSlash(filepath.Join(d.path, rel))
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a Windows path starts with a drive
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// hidden reports whether a path below the directory is none of our business.
func hidden(rel string) bool {
	if rel == "." {
		return false
	}
	return strings.HasPrefix(rel, ".") || strings.Contains(rel, string(filepath.Separator)+".")
}
