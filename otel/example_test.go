// How a service uses the package.

package mcpotel_test

import (
	"context"
	"fmt"
	"net/url"

	"github.com/mcplisten/mcplisten/core"
	mcpotel "github.com/mcplisten/mcplisten/otel"
)

// The spans and metrics go to the providers of the program's SDK, wherever those
// export to.
func ExampleNew() {
	observer, err := mcpotel.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	hub, err := core.NewHub(core.Config{
		Capabilities: core.Capabilities{ToolsListChanged: true},
		Observer:     observer,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	// … serve …

	// First the hub, then the HTTP server, then the providers: what ends last has
	// ended the spans of the others.
	fmt.Println(hub.Shutdown(context.Background()))
	// Output: <nil>
}

// The spans of deliveries show the path of a resource, and not its query, which
// may be a secret.
func ExampleWithURIRedaction() {
	redact := func(uri string) string {
		u, err := url.Parse(uri)
		if err != nil {
			return ""
		}
		u.RawQuery, u.User, u.Fragment = "", nil, ""
		return u.String()
	}
	_, err := mcpotel.New(mcpotel.WithDeliverySpans(100, 60), mcpotel.WithURIRedaction(redact))
	fmt.Println(redact("file:///report.pdf?token=s3cret"), err)
	// Output: file:///report.pdf <nil>
}
