// The suite leaves no goroutine behind. Run as a child process, the test binary is
// an MCP server for the tests of Command.

package mcpstdio_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(asChild); role != "" {
		beChild(role)
		return
	}
	goleak.VerifyTestMain(m)
}
