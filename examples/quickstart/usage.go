// What is printed at the start: a command that opens a subscription.

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/examples/internal/dirwatch"
)

func printUsage(out io.Writer, files *dirwatch.Dir, url string) {
	list := files.List()
	fmt.Fprintf(out, "Serving the files of %q at %s\n\n", files.Path(), url)
	what := "the list of files"
	var uris []string
	if len(list) > 0 {
		// A file of the directory itself is easier to find than one further down.
		i := max(0, slices.IndexFunc(list, func(f dirwatch.File) bool { return !strings.Contains(f.Name, "/") }))
		what += fmt.Sprintf(" and to %q", filepath.Join(files.Path(), filepath.FromSlash(list[i].Name)))
		uris = append(uris, list[i].URI)
	}
	fmt.Fprintf(out, "To listen to %s, paste this into another terminal:\n\n%s\n\nCtrl-C ends.\n", what, curl(url, uris))
}

// curl returns a shell command that listens to the list of resources and to the
// given ones.
func curl(url string, uris []string) string {
	notifications := `"resourcesListChanged":true`
	if len(uris) > 0 {
		list, _ := json.Marshal(uris) // strings can always be encoded
		notifications += `,"resourceSubscriptions":` + string(list)
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"_meta":{%q:%q,%q:{}},"notifications":{%s}}}`,
		core.MethodListen, core.MetaProtocolVersion, core.ProtocolVersion, core.MetaClientCapabilities, notifications)
	return strings.Join([]string{
		"curl -sSN " + quote(url),
		"-H 'Content-Type: application/json'",
		"-H 'Accept: application/json, text/event-stream'",
		"-H " + quote("MCP-Protocol-Version: "+core.ProtocolVersion),
		"-H " + quote("Mcp-Method: "+core.MethodListen),
		"-d " + quote(body),
	}, " \\\n  ")
}

// quote quotes a word for a POSIX shell.
func quote(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// clientAddr returns the address by which a client on this machine reaches a
// server that listens on addr.
func clientAddr(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("127.0.0.1:%d", tcp.Port)
	}
	return addr.String()
}
