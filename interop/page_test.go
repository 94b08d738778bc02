// docs/interop.md says what is true.

// Package interop checks the page about interoperability against what the jobs use.
package interop

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

func text(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const page = "../docs/interop.md"

// What users copy is what was tested.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"proxies/nginx/recommended.conf", "proxies/haproxy/recommended.cfg"} {
		if !strings.Contains(text(t, page), "```\n"+text(t, file)+"```\n") {
			t.Errorf("the page does not show %s as it is", file)
		}
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	versions := make(map[string]string)
	for _, file := range []string{"conformance/package.json", "clients/package.json"} {
		var pinned struct{ Dependencies map[string]string }
		if err := json.Unmarshal([]byte(text(t, file)), &pinned); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for name, version := range pinned.Dependencies {
			if strings.HasPrefix(name, "@") {
				versions[name] = version
			}
		}
	}
	for name, file := range map[string]string{
		"github.com/modelcontextprotocol/go-sdk": "go.mod",
		"github.com/mark3labs/mcp-go":            "go.mod",
		"@modelcontextprotocol/inspector":        "../.ci/interop/clients.sh",
	} {
		pattern := regexp.QuoteMeta(name) + ` v(\S+)`
		if strings.HasSuffix(file, ".sh") {
			pattern = `inspector_version=(\S+)`
		}
		found := regexp.MustCompile(pattern).FindStringSubmatch(text(t, file))
		if found == nil {
			t.Fatalf("%s names no version of %s", file, name)
		}
		versions[name] = found[1]
	}
	if len(versions) != 5 {
		t.Errorf("five are on the page, and here are %v", versions)
	}
	for name, version := range versions {
		row := regexp.MustCompile("(?m)^\\|.*`" + regexp.QuoteMeta(name) + "`[^|]*\\| " + regexp.QuoteMeta(version) + ` \|`)
		if !row.MatchString(text(t, page)) {
			t.Errorf("the page does not say %s %s", name, version)
		}
	}
}
