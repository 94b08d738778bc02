// What mcplisten check finds in other people's servers. Each of these findings
// was seen by hand as well.

package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// failures are the checks that fail, by server.
var failures = map[string][]string{
	"mcplisten": nil,
	"gosdk":     {"foreign Origin", "id: 2^53+1", "id: 2^64+1", "refuses: id 1.5"},
	"mcpgo": {
		"filter: another case", "foreign Origin", "id: 2^53+1", "id: 2^64+1", "notifications/cancelled",
		"refuses: filter null", "refuses: id 1.5", "refuses: id []", "refuses: id true", "refuses: id {}", "refuses: no filter",
	},
	"typescript": {"foreign Origin"},
}

func TestCheck(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "mcplisten")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/mcplisten/mcplisten/cmd/mcplisten").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	for _, server := range sdks(t) {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			r := server.start(t)
			failed, code := check(t, binary, string(r.url))
			// mcp-go now and then answers a new listen with the result at once, and any check may meet it.
			for try := 0; try < 5 && server.name == "mcpgo" && !slices.Equal(failed, failures[server.name]); try++ {
				failed, code = check(t, binary, string(r.url))
			}
			if want := failures[server.name]; !slices.Equal(failed, want) {
				t.Errorf("failed:\n%s\nwant:\n%s", strings.Join(failed, "\n"), strings.Join(want, "\n"))
			}
			if want := min(len(failed), 1); code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
		})
	}
}

// check returns the checks that fail at a server, sorted, and the exit code.
func check(t *testing.T, binary, url string) (failed []string, code int) {
	t.Helper()
	out, err := exec.CommandContext(testContext(t), binary, "check", url, "--json", "--wait", "0", "--resource", "file:///a").Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var f struct{ Level, Check, Found string }
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		if f.Level == "FAIL" {
			failed = append(failed, f.Check)
		}
	}
	slices.Sort(failed)
	return failed, code
}
