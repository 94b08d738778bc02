// The tests here need no SDK. Those that look at spans and metrics are in a
// module of their own, interop/otel: the SDK in a test of this module would be in
// the go.mod of everybody who uses the library.

package mcpotel_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
