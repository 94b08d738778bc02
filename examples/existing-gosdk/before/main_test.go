package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcplisten/mcplisten/examples/internal/listening"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The server as it was serves no listen request.
func TestProgram(t *testing.T) {
	printed, stop := listening.Start(t, 1, func(ctx context.Context, out io.Writer) error { return run(ctx, "127.0.0.1:0", out) })
	c := listening.Client{URL: printed[0][strings.LastIndex(printed[0], " ")+1:]}
	if status, body := c.Refused(t, `{"resourcesListChanged":true}`); status != http.StatusBadRequest || !strings.Contains(body, "2025-11-25") {
		t.Errorf("status %d, %s; want 400 with the revisions that it speaks", status, body)
	}
	stop()
}
