// Package jaeger sends the spans of streams to a real Jaeger and asks it for
// them. jaeger.mod, beside the module's own go.mod, says which Jaeger: it is a
// tool of these tests, and its five hundred requirements are nobody else's.
//
// .ci/interop/otel.sh builds it and runs the tests; with MCPLISTEN_JAEGER set to
// the path of a Jaeger v2, so does go test.
package jaeger
