// Shutting down without losing a span.

package beside

import (
	"context"
	"errors"
	"net/http"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/mcplisten/mcplisten/core"
)

// Shutdown ends a service: the streams and their spans, the requests and theirs,
// and the providers, which export what is left.
func Shutdown(ctx context.Context, hub *core.Hub, server *http.Server, tracers *sdktrace.TracerProvider, meters *sdkmetric.MeterProvider) error {
	err := errors.Join(hub.Shutdown(ctx), server.Shutdown(ctx), tracers.Shutdown(ctx), meters.Shutdown(ctx))
	return err
}
