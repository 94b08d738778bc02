// Options: what New refuses.

package mcphttp_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

func newHub(tb testing.TB, config core.Config) *core.Hub {
	tb.Helper()
	hub, err := core.NewHub(config)
	if err != nil {
		tb.Fatalf("hub: %v", err)
	}
	return hub
}

func TestNewRefusesContradictions(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{})
	for name, c := range map[string]struct {
		hub    *core.Hub
		option mcphttp.Option
		want   string
	}{
		"no hub":               {nil, mcphttp.WithMaxBody(1), "hub"},
		"no write timeout":     {hub, mcphttp.WithWriteTimeout(0), "write timeout"},
		"negative timeout":     {hub, mcphttp.WithWriteTimeout(-time.Second), "write timeout"},
		"no body":              {hub, mcphttp.WithMaxBody(0), "body limit"},
		"negative body":        {hub, mcphttp.WithMaxBody(-1), "body limit"},
		"origin: host only":    {hub, mcphttp.WithOrigins("app.example.com"), "origin"},
		"origin: any":          {hub, mcphttp.WithOrigins("*"), "origin"},
		"origin: null":         {hub, mcphttp.WithOrigins("null"), "origin"},
		"origin: empty":        {hub, mcphttp.WithOrigins(""), "origin"},
		"origin: with path":    {hub, mcphttp.WithOrigins("https://app.example.com/mcp"), "origin"},
		"origin: with query":   {hub, mcphttp.WithOrigins("https://app.example.com?x"), "origin"},
		"origin: with user":    {hub, mcphttp.WithOrigins("https://u@app.example.com"), "origin"},
		"origin: the second":   {hub, mcphttp.WithOrigins("https://app.example.com", "x"), "origin"},
		"origin: not readable": {hub, mcphttp.WithOrigins("https://app.example.com:port"), "origin"},
		"host: empty":          {hub, mcphttp.WithHosts(""), "host"},
		"host: a URL":          {hub, mcphttp.WithHosts("https://app.example.com"), "host"},
		"host: with user":      {hub, mcphttp.WithHosts("u@app.example.com"), "host"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, err := mcphttp.New(c.hub, c.option)
			if h != nil || err == nil || !strings.HasPrefix(err.Error(), "mcphttp: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v and error %v, want an error of mcphttp about %q", h, err, c.want)
			}
		})
	}
	if _, err := mcphttp.New(hub); err != nil {
		t.Errorf("no options: %v", err)
	}
}
