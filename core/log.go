// The log: an application's handler that panics must not take more with it than the
// line that it was to write.

package core

import (
	"context"
	"log/slog"
)

// newLog returns the logger that a hub uses for an application's, nil for none.
func newLog(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(logHandler{l.Handler()})
}

// logHandler is a handler that does not panic.
type logHandler struct{ slog.Handler }

func (h logHandler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	defer func() { _ = recover() }()
	return h.Handler.Enabled(ctx, level)
}

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	defer func() { _ = recover() }()
	return h.Handler.Handle(ctx, r)
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name)}
}
