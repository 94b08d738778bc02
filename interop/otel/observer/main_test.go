// Package observer_test tests mcpotel with the real SDK. It is a module of its
// own, as in opentelemetry-go-contrib: a test that imports the SDK would put the
// SDK into the go.mod of everybody who uses the library.
package observer_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
