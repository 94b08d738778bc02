// Hooks of the application for tests, and small help with goroutines.

package listentest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/mcplisten/mcplisten/core"
)

func authorizer(f func() (core.Grant, error)) core.Authorizer {
	return core.AuthorizerFunc(func(context.Context, string, core.Filter) (core.Grant, error) { return f() })
}

// refusing refuses everybody with an error.
func refusing(err error) core.Authorizer {
	return authorizer(func() (core.Grant, error) { return core.Grant{}, err })
}

// onlyFor allows one principal.
func onlyFor(name string) core.Authorizer {
	return core.AuthorizerFunc(func(_ context.Context, principal string, _ core.Filter) (core.Grant, error) {
		if principal != name {
			return core.Grant{}, errors.New("not " + name)
		}
		return core.Grant{}, nil
	})
}

// Start counts the resource.
func (w *countingWatcher) Start(context.Context, string) error {
	w.running.Add(1)
	return nil
}

// failingWatcher cannot watch.
type failingWatcher struct{ err error }

func (w *failingWatcher) Start(context.Context, string) error { return w.err }
func (w *failingWatcher) Stop(string)                         {}

// receive returns what comes out of a channel. It fails the test if nothing does.
func receive[T any](tb testing.TB, srv *Server, from <-chan T) (v T) {
	tb.Helper()
	select {
	case v = <-from:
	case <-srv.ctx.Done():
		tb.Fatal("waited in vain")
	}
	return v
}

// inParallel calls f with 0 to n-1, each on a goroutine of its own, and returns
// their errors.
func inParallel(n int, f func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := f(i); err != nil {
				errs[i] = fmt.Errorf("%d: %w", i, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
