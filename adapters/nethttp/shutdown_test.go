// What RegisterShutdown does to a server's settings; what it is for is part of the
// table that every adapter runs.

package mcphttp_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

func TestRegisterShutdownBoundsHTTP2Writes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config *http.HTTP2Config
		want   time.Duration
	}{
		"no configuration": {nil, mcphttp.DefaultWriteTimeout},
		"not set":          {&http.HTTP2Config{MaxConcurrentStreams: 7}, mcphttp.DefaultWriteTimeout},
		"set":              {&http.HTTP2Config{WriteByteTimeout: time.Second}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hub, err := core.NewHub(core.Config{})
			if err != nil {
				t.Fatal(err)
			}
			server := &http.Server{HTTP2: test.config}
			mcphttp.RegisterShutdown(server, hub)
			if got := server.HTTP2.WriteByteTimeout; got != test.want {
				t.Errorf("WriteByteTimeout is %v, want %v", got, test.want)
			}
			if test.config != nil && test.config.MaxConcurrentStreams != server.HTTP2.MaxConcurrentStreams {
				t.Errorf("another setting was lost")
			}
		})
	}
}
