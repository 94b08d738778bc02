//go:build unix

package dirwatch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/core"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds waiting for the file system. It is never waited for in full
// unless a test fails.
const patience = 20 * time.Second

// published is what one batch of events made.
type published struct {
	changes []core.Change
	at      time.Time
}

// Files that are always listened to. When a sentinel is written and its update
// comes, all earlier events have been handled; unless the update of the witness,
// which is never written, comes with it: then the directory was read again, and
// events may be left. There are several so that a late event of one is not taken
// for that of the next.
const (
	sentinels = 16
	witness   = "z-witness"
)

func sentinel(i int) string { return fmt.Sprintf("z-sentinel%d", i%sentinels) }

// own reports whether a file, given by name or URI, is one of the fixture's.
func own(name string) bool { return strings.HasPrefix(path.Base(name), "z-") }

// fixture is a directory with a running Dir on it.
type fixture struct {
	*Dir
	t       *testing.T
	batches chan published
	settled int // how often a sentinel was written
}

// open makes a directory with the given files and opens it.
func open(t *testing.T, files ...string) *fixture {
	t.Helper()
	dir := t.TempDir()
	always := []string{witness}
	for i := range sentinels {
		always = append(always, sentinel(i))
	}
	for _, name := range append(files, always...) {
		write(t, filepath.Join(dir, name), "new")
	}
	d, err := New(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{Dir: d, t: t, batches: make(chan published, 100_000)}
	for _, name := range always {
		f.start(name)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Run(t.Context(), func(changes ...core.Change) {
			f.batches <- published{changes, time.Now()}
		})
	}()
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	})
	return f
}

func (f *fixture) abs(name string) string { return filepath.Join(f.path, name) }

func (f *fixture) start(name string) {
	f.t.Helper()
	if err := f.Start(f.t.Context(), f.uri(name)); err != nil {
		f.t.Fatalf("Start(%s): %v", name, err)
	}
}

// await waits for a batch with the given change and returns what was published
// up to and with that batch, and the batch.
func (f *fixture) await(want core.Change) (all []core.Change, last published) {
	f.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case last = <-f.batches:
			all = append(all, last.changes...)
			if slices.Contains(last.changes, want) {
				return all, last
			}
		case <-timeout:
			f.t.Fatalf("%v did not come; came: %v", want, all)
		}
	}
}

// settle waits until all events so far have been handled and returns the changes
// that they made, each once.
func (f *fixture) settle() []core.Change {
	f.t.Helper()
	var changes []core.Change
	for reread := true; reread; {
		name := sentinel(f.settled)
		f.settled++
		file, err := os.OpenFile(f.abs(name), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			f.t.Fatal(err)
		}
		_, err = file.WriteString("x") // one event, not two as with os.WriteFile
		if err := errors.Join(err, file.Close()); err != nil {
			f.t.Fatal(err)
		}
		all, last := f.await(core.ResourceUpdated(f.uri(name)))
		reread = slices.Contains(last.changes, core.ResourceUpdated(f.uri(witness)))
		changes = append(changes, all...)
	}
	changes = slices.DeleteFunc(changes, func(c core.Change) bool { return own(c.URI) })
	slices.SortFunc(changes, func(a, b core.Change) int { return strings.Compare(a.URI, b.URI) })
	return slices.Compact(changes)
}

// expect settles and compares the changes: "list" stands for the list, all else
// for the update of the file with that name.
func (f *fixture) expect(want ...string) {
	f.t.Helper()
	var got []string
	for _, c := range f.settle() {
		if c.Kind == core.KindResources {
			got = append(got, "list")
			continue
		}
		got = append(got, strings.TrimPrefix(c.URI, f.uri(".")+"/"))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		f.t.Errorf("changes: got %q, want %q", got, want)
	}
}

// names returns the names of the resources but for the fixture's own.
func (f *fixture) names() []string {
	var names []string
	for _, file := range f.List() {
		if !own(file.Name) {
			names = append(names, file.Name)
		}
	}
	return names
}

func (f *fixture) expectNames(want ...string) {
	f.t.Helper()
	if got := f.names(); !slices.Equal(got, want) {
		f.t.Errorf("resources: got %q, want %q", got, want)
	}
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func removeAll(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func TestListHasRegularFilesOnly(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	write(t, filepath.Join(outside, "secret"), "secret")
	dir := t.TempDir()
	for _, name := range []string{"b", "a", "sub/deep/c", ".hidden", ".git/config", "sub/.env", "a b'c\"%41?#ü"} {
		write(t, filepath.Join(dir, name), name)
	}
	symlink(t, filepath.Join(outside, "secret"), filepath.Join(dir, "link-out"))
	symlink(t, outside, filepath.Join(dir, "dir-out"))
	symlink(t, "a", filepath.Join(dir, "link-in"))
	symlink(t, "sub", filepath.Join(dir, "dir-in"))
	symlink(t, ".", filepath.Join(dir, "loop"))
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}

	d, err := New(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	var names []string
	for _, file := range d.List() {
		names = append(names, file.Name)
		data, err := d.Read(file.URI)
		if err != nil || string(data) != file.Name {
			t.Errorf("Read(%s): %q, %v", file.URI, data, err)
		}
	}
	if want := []string{"a", "a b'c\"%41?#ü", "b", "sub/deep/c"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

func TestNewFails(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	for _, path := range []string{file, file + "x"} {
		if _, err := New(path, nil); err == nil {
			t.Errorf("New(%s) did not fail", path)
		}
	}
}

func TestDirectoryNamedByLink(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	write(t, filepath.Join(base, "real", "file"), "data")
	symlink(t, "real", filepath.Join(base, "link"))
	d, err := New(filepath.Join(base, "link"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	list := d.List()
	if len(list) != 1 || !strings.HasSuffix(list[0].URI, "/real/file") {
		t.Errorf("got %v", list)
	}
}

func TestUnknownURIsAreRefused(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	write(t, filepath.Join(outside, "secret"), "secret")
	f := open(t, "file", "sub/file", "a b", ".env")
	symlink(t, filepath.Join(outside, "secret"), f.abs("link"))
	symlink(t, outside, f.abs("dir"))
	symlink(t, "file", f.abs("inner"))
	f.expect()
	f.expectNames("a b", "file", "sub/file")

	root := f.uri(".")
	for _, uri := range []string{
		"",
		root,
		root + "/",
		root + "/nothing",
		root + "/sub",
		root + "/sub/",
		root + "/.env",
		root + "/link",
		root + "/dir/secret",
		root + "/inner",
		root + "/../" + filepath.Base(root) + "/file",
		root + "/sub/../file",
		root + "/sub/%2e%2e/file",
		root + "/sub%2ffile",
		root + "/sub%2Ffile",
		root + "/./file",
		root + "//file",
		root + "/%66ile",
		root + "/a b",
		root + "/a+b",
		root + "/a%2520b",
		root + "/file%00",
		root + "/file?x=y",
		root + "/file#x",
		root + "/../../../../../../../etc/passwd",
		root + "/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
		"file://localhost" + strings.TrimPrefix(root, "file://") + "/file",
		"file:" + strings.TrimPrefix(root, "file://") + "/file",
		"FILE" + strings.TrimPrefix(root, "file") + "/file",
		strings.TrimPrefix(root, "file://") + "/file",
		"file:///etc/passwd",
		"file",
	} {
		if data, err := f.Read(uri); !errors.Is(err, ErrNotFound) {
			t.Errorf("Read(%q): %q, %v", uri, data, err)
		}
		err := f.Start(t.Context(), uri)
		var e *core.Error
		if !errors.As(err, &e) || e.Code != core.CodeInvalidParams || !errors.Is(err, ErrNotFound) {
			t.Errorf("Start(%q): %v", uri, err)
		}
	}
	for _, name := range []string{"file", "sub/file", "a b"} {
		if _, err := f.Read(f.uri(name)); err != nil {
			t.Errorf("Read(%s): %v", name, err)
		}
	}
}

func TestEdit(t *testing.T) {
	t.Parallel()
	f := open(t, "file", "other", "sub/file")
	f.start("file")
	f.start("sub/file")
	write(t, f.abs("file"), "edited")
	f.expect("file")
	write(t, f.abs("sub/file"), "edited")
	f.expect("sub/file")
	write(t, f.abs("other"), "edited")
	f.expect()
	f.Stop(f.uri("file"))
	write(t, f.abs("file"), "edited again")
	f.expect()
}

func TestSaveByRename(t *testing.T) {
	t.Parallel()
	f := open(t, "file")
	f.start("file")

	// From a hidden file: the list stays as it is. More than once, since a watch on
	// the file itself would survive none.
	for range 3 {
		write(t, f.abs(".file.tmp"), "edited")
		rename(t, f.abs(".file.tmp"), f.abs("file"))
		f.expect("file")
	}
	write(t, f.abs("file"), "in place")
	f.expect("file")

	// From outside of the directory.
	tmp := filepath.Join(t.TempDir(), "tmp")
	write(t, tmp, "edited")
	rename(t, tmp, f.abs("file"))
	f.expect("file")

	// From a visible file, which is in the list for a while.
	write(t, f.abs("file.tmp"), "edited")
	f.expect("list")
	rename(t, f.abs("file.tmp"), f.abs("file"))
	f.expect("list", "file")
	f.expectNames("file")

	// The old file becomes a backup first.
	rename(t, f.abs("file"), f.abs("file~"))
	f.expect("list", "file")
	write(t, f.abs("file"), "edited")
	f.expect("list", "file")
	f.expectNames("file", "file~")
}

func TestCreateRemoveRename(t *testing.T) {
	t.Parallel()
	f := open(t, "file")
	write(t, f.abs("new"), "")
	f.expect("list")
	f.expectNames("file", "new")
	rename(t, f.abs("new"), f.abs("newer"))
	f.expect("list")
	f.expectNames("file", "newer")
	removeAll(t, f.abs("newer"))
	f.expect("list")
	f.expectNames("file")

	// Who listens to the file alone is told, too: what they have is stale.
	f.start("file")
	removeAll(t, f.abs("file"))
	f.expect("list", "file")
	write(t, f.abs("file"), "back")
	f.expect("list", "file")

	for _, name := range []string{".hidden", ".d/file"} {
		write(t, f.abs(name), "")
	}
	if err := os.Mkdir(f.abs("empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.expect()
}

func TestHundredSavesInASecond(t *testing.T) {
	t.Parallel()
	f := open(t, "file")
	f.start("file")
	var last time.Time
	for i := range 100 {
		last = time.Now()
		write(t, f.abs("file"), strconv.Itoa(i))
	}
	for {
		if _, b := f.await(core.ResourceUpdated(f.uri("file"))); b.at.After(last) {
			return
		}
	}
}

func TestNewDirectories(t *testing.T) {
	t.Parallel()
	f := open(t)
	write(t, f.abs("a/b/c/file"), "")
	f.expect("list")
	f.expectNames("a/b/c/file")
	f.start("a/b/c/file")
	write(t, f.abs("a/b/c/file"), "edited")
	f.expect("a/b/c/file")

	// A directory that was moved in, with all that is in it.
	tree := filepath.Join(t.TempDir(), "tree")
	write(t, filepath.Join(tree, "sub", "file"), "")
	rename(t, tree, f.abs("tree"))
	f.expect("list")
	f.start("tree/sub/file")
	write(t, f.abs("tree/sub/file"), "edited")
	f.expect("tree/sub/file")

	// And out again: its watches must not stay.
	rename(t, f.abs("tree"), tree)
	f.expect("list", "tree/sub/file")
	write(t, filepath.Join(tree, "sub", "file"), "edited")
	f.expect()
	f.expectNames("a/b/c/file")
}

func TestRenamedDirectory(t *testing.T) {
	t.Parallel()
	f := open(t, "a/sub/file", "c/sub/file", "c/other")
	f.start("a/sub/file")
	f.start("c/sub/file")

	rename(t, f.abs("a"), f.abs("b"))
	f.expect("list", "a/sub/file")
	f.expectNames("b/sub/file", "c/other", "c/sub/file")
	f.start("b/sub/file")
	write(t, f.abs("b/sub/file"), "edited")
	f.expect("b/sub/file")

	// Two at once, one in the other's place.
	rename(t, f.abs("b"), f.abs("x"))
	rename(t, f.abs("c"), f.abs("b"))
	f.settle()
	f.expectNames("b/other", "b/sub/file", "x/sub/file")
	f.start("x/sub/file")
	write(t, f.abs("b/sub/file"), "edited")
	f.expect("b/sub/file")
	write(t, f.abs("x/sub/file"), "edited")
	f.expect("x/sub/file")
	write(t, f.abs("b/new"), "")
	f.expect("list")
}

func TestRemovedDirectory(t *testing.T) {
	t.Parallel()
	f := open(t, "a/file", "a/b/file", "ab/file")
	f.start("a/file")
	f.start("a/b/file")
	f.start("ab/file")
	removeAll(t, f.abs("a"))
	f.expect("list", "a/file", "a/b/file")
	f.expectNames("ab/file")

	write(t, f.abs("a/file"), "back")
	f.expect("list", "a/file")
	write(t, f.abs("a/file"), "edited")
	f.expect("a/file")

	removeAll(t, f.abs("a"))
	write(t, f.abs("a"), "a file now")
	f.expect("list", "a/file")
	f.expectNames("a", "ab/file")
}

func TestWholeDirectory(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(t *testing.T, path string){
		"removed": removeAll,
		"renamed": func(t *testing.T, path string) { rename(t, path, filepath.Join(t.TempDir(), "away")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, "file", "sub/file")
			f.start("file")
			f.start("sub/file")
			away(t, f.path)
			want := map[core.Change]bool{
				core.ResourcesListChanged():             true,
				core.ResourceUpdated(f.uri("file")):     true,
				core.ResourceUpdated(f.uri("sub/file")): true,
			}
			timeout := time.After(patience)
			for len(want) > 0 || len(f.List()) > 0 {
				select {
				case b := <-f.batches:
					for _, c := range b.changes {
						delete(want, c)
					}
				case <-timeout:
					t.Fatalf("missing: %v; resources: %v", want, f.List())
				}
			}
			if _, err := f.Read(f.uri("file")); !errors.Is(err, ErrNotFound) {
				t.Errorf("Read: %v", err)
			}
			if err := f.Start(t.Context(), f.uri("file")); !errors.Is(err, ErrNotFound) {
				t.Errorf("Start: %v", err)
			}
			f.Stop(f.uri("file"))
			// Another directory of that name is not the one that was asked for.
			write(t, f.abs("file"), "back")
			if _, err := f.Read(f.uri("file")); !errors.Is(err, ErrNotFound) {
				t.Errorf("Read of another directory: %v", err)
			}
			if err := os.RemoveAll(f.path); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// What takes a file's place is refused at once: the file system's event may
// still be on its way.
func TestReplacedFile(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "secret")
	write(t, outside, "secret")
	for name, replace := range map[string]func(path string) error{
		"link out":      func(path string) error { return os.Symlink(outside, path) },
		"link inside":   func(path string) error { return os.Symlink(witness, path) },
		"link to .env":  func(path string) error { return os.Symlink(".env", path) },
		"dangling link": func(path string) error { return os.Symlink("nothing", path) },
		"pipe":          func(path string) error { return syscall.Mkfifo(path, 0o644) },
		"directory":     func(path string) error { return os.Mkdir(path, 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, "file", ".env")
			f.start("file")
			f.mu.Lock() // holds back all events
			err := os.Remove(f.abs("file"))
			if err == nil {
				err = replace(f.abs("file"))
			}
			held := f.files[f.uri("file")]
			f.mu.Unlock()
			if err != nil || held == "" {
				t.Fatal(err, held)
			}
			if data, err := f.Read(f.uri("file")); !errors.Is(err, ErrNotFound) {
				t.Errorf("Read: %q, %v", data, err)
			}
			f.expect("list", "file")
			f.expectNames()
			if err := f.Start(t.Context(), f.uri("file")); !errors.Is(err, ErrNotFound) {
				t.Errorf("Start: %v", err)
			}
		})
	}
}

func TestReplacedDirectory(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	write(t, filepath.Join(outside, "file"), "secret")
	f := open(t, "sub/file")
	f.start("sub/file")
	f.mu.Lock()
	removeAll(t, f.abs("sub"))
	symlink(t, outside, f.abs("sub"))
	watched := f.watch("sub")
	f.mu.Unlock()
	if watched {
		t.Error("a link out of the directory was watched")
	}
	if data, err := f.Read(f.uri("sub/file")); !errors.Is(err, ErrNotFound) {
		t.Errorf("Read: %q, %v", data, err)
	}
	f.expect("list", "sub/file")
	write(t, filepath.Join(outside, "file"), "edited")
	write(t, filepath.Join(outside, "new"), "")
	f.expect()
	f.expectNames()
	if watches := f.notify.WatchList(); !slices.Equal(watches, []string{f.path}) {
		t.Errorf("watches: %q", watches)
	}
}

func TestStartAndStopLeaveNothing(t *testing.T) {
	t.Parallel()
	f := open(t, "file", "sub/file")
	before := f.notify.WatchList()
	slices.Sort(before)
	for range 100 {
		f.start("file")
		f.start("sub/file")
		f.Stop(f.uri("sub/file"))
		f.Stop(f.uri("file"))
	}
	f.start("file")
	removeAll(t, f.abs("file"))
	f.await(core.ResourceUpdated(f.uri("file")))
	f.Stop(f.uri("file"))
	after := f.notify.WatchList()
	slices.Sort(after)
	if !slices.Equal(before, after) {
		t.Errorf("watches: before %q, after %q", before, after)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for uri := range f.listened {
		if !own(uri) {
			t.Errorf("still listened to: %s", uri)
		}
	}
}

// More events at once than the system keeps: nothing may be lost.
func TestOverflow(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil {
		t.Skip("no inotify")
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || limit > 100_000 {
		t.Skip("the queue is too long to fill: ", limit)
	}
	f := open(t, "a", "b", "sub/file")
	f.start("a")
	f.start("sub/file")
	f.mu.Lock() // holds back Run
	a, errA := os.OpenFile(f.abs("a"), os.O_WRONLY, 0)
	b, errB := os.OpenFile(f.abs("b"), os.O_WRONLY, 0)
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	for range limit { // two files in turn: equal events in a row are one
		_, errA = a.WriteString("x")
		_, errB = b.WriteString("x")
		if err := errors.Join(errA, errB); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	write(t, f.abs("sub/file"), "edited")
	write(t, f.abs("sub/new"), "")
	removeAll(t, f.abs("b"))
	f.mu.Unlock()

	// That events were lost comes on a channel of its own, earlier or later than a
	// sentinel that is written now.
	got, _ := f.await(core.ResourceUpdated(f.uri(witness)))
	got = append(got, f.settle()...)
	for _, want := range []core.Change{
		core.ResourcesListChanged(), core.ResourceUpdated(f.uri("a")), core.ResourceUpdated(f.uri("sub/file")),
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%v did not come", want)
		}
	}
	f.expectNames("a", "sub/file", "sub/new")
	write(t, f.abs("sub/file"), "edited")
	f.expect("sub/file")
}

// After a rescan everybody who listens is told, even of a file that was gone
// before it.
func TestRescanTellsAll(t *testing.T) {
	t.Parallel()
	f := open(t, "a", "b", "c")
	f.start("a")
	f.start("b")
	removeAll(t, f.abs("b"))
	f.expect("list", "b")
	f.overflow <- struct{}{}
	_, batch := f.await(core.ResourcesListChanged())
	for _, name := range []string{"a", "b", witness} {
		if !slices.Contains(batch.changes, core.ResourceUpdated(f.uri(name))) {
			t.Errorf("no update of %s in %v", name, batch.changes)
		}
	}
}

func TestReadLimit(t *testing.T) {
	t.Parallel()
	f := open(t, "file", "empty")
	write(t, f.abs("empty"), "")
	if err := os.Truncate(f.abs("file"), MaxFileSize); err != nil {
		t.Fatal(err)
	}
	if data, err := f.Read(f.uri("file")); err != nil || len(data) != MaxFileSize {
		t.Errorf("at the limit: %d bytes, %v", len(data), err)
	}
	if err := os.Truncate(f.abs("file"), MaxFileSize+1); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Read(f.uri("file")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("over the limit: %v", err)
	}
	if data, err := f.Read(f.uri("empty")); err != nil || data == nil || len(data) != 0 {
		t.Errorf("empty: %v, %v", data, err)
	}
}

func TestFileAndDirectoryLimits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range MaxDirs + 10 {
		write(t, filepath.Join(dir, "dirs", strconv.Itoa(i), "file"), "")
	}
	for i := range MaxFiles {
		write(t, filepath.Join(dir, "files", strconv.Itoa(i)), "")
	}
	d, err := New(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if n := len(d.List()); n != MaxFiles {
		t.Errorf("%d files", n)
	}
	if n := len(d.notify.WatchList()); n > MaxDirs || n < 3 {
		t.Errorf("%d watches", n)
	}
}

// A directory that is moved and then removed makes the watcher report an error
// while it holds its lock.
func TestMovedAndRemovedDirectories(t *testing.T) {
	t.Parallel()
	f := open(t)
	for i := range 200 {
		write(t, f.abs("x/sub/file"), strconv.Itoa(i))
		rename(t, f.abs("x"), f.abs("y"))
		removeAll(t, f.abs("y"))
	}
	f.settle()
	f.expectNames()
}

// Whatever happens, in the end the list is what is there, and everything in it is
// watched.
func TestConverges(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("watches renamed directories by their old names")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	f := open(t)
	anywhere := func() string {
		p := f.path
		for range 1 + random.IntN(3) {
			p = filepath.Join(p, []string{"a", "b", "c"}[random.IntN(3)])
		}
		return p
	}
	for range 20 {
		for range 30 {
			// Errors are part of the game: a directory is moved into itself, a file is
			// in the way.
			p := anywhere()
			switch random.IntN(6) {
			case 0:
				_ = os.MkdirAll(p, 0o755)
			case 1, 2:
				_ = os.MkdirAll(filepath.Dir(p), 0o755)
				_ = os.WriteFile(p, []byte("x"), 0o644)
			case 3:
				_ = os.RemoveAll(p)
			case 4:
				_ = os.Rename(p, anywhere())
			case 5:
				q := anywhere()
				_ = os.Rename(p, f.abs(".tmp"))
				_ = os.Rename(q, p)
				_ = os.Rename(f.abs(".tmp"), q)
				_ = os.RemoveAll(f.abs(".tmp"))
			}
		}
		f.settle()
		var want []string
		err := filepath.WalkDir(f.path, func(p string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() && !own(e.Name()) {
				rel, _ := filepath.Rel(f.path, p)
				want = append(want, rel)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		f.expectNames(want...)
		for _, name := range want {
			f.start(name)
			write(t, f.abs(name), "edited")
			f.expect(name)
			f.Stop(f.uri(name))
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

func TestRunEndsWithContext(t *testing.T) {
	t.Parallel()
	d, err := New(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d.Run(ctx, func(...core.Change) {})
}

func Example() {
	dir, err := os.MkdirTemp("", "dirwatch")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	d, err := New(dir, nil)
	if err != nil {
		panic(err)
	}
	defer func() { _ = d.Close() }()

	changed := make(chan core.Change, 10)
	go d.Run(context.Background(), func(changes ...core.Change) {
		for _, c := range changes {
			changed <- c
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("hello"), 0o600); err != nil {
		panic(err)
	}
	fmt.Println((<-changed).Kind)
	for _, file := range d.List() {
		fmt.Println(file.Name)
	}
	// Output:
	// notifications/resources/list_changed
	// file
}
