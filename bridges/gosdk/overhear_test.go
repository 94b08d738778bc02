// An older client that does not read is no concern of those that listen.

package gosdkbridge_test

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	gosdkbridge "github.com/mcplisten/mcplisten/bridges/gosdk"
	"github.com/mcplisten/mcplisten/core"
)

// stall connects a client of an older revision that subscribes to the URIs and then
// reads nothing more.
func stall(t *testing.T, server *mcp.Server, uris ...string) (hangUp func()) {
	t.Helper()
	requests, in := io.Pipe()
	out, answers := io.Pipe()
	session, err := server.Connect(t.Context(), &mcp.IOTransport{Reader: requests, Writer: answers}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	say := func(msg string, answered bool) {
		t.Helper()
		_, err := io.WriteString(in, msg+"\n")
		if err == nil && answered {
			_, err = r.ReadString('\n')
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`, true)
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, false)
	for i, uri := range uris {
		say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":%q}}`, i+2, uri), true)
	}
	return func() {
		in.Close()
		out.Close()
		_ = session.Wait()
	}
}

// TestAStalledOlderClient holds up no announcement, wherever it is among the server's
// sessions, and each is told once.
func TestAStalledOlderClient(t *testing.T) {
	t.Parallel()
	s := serve(t, "nethttp", newServer(&handlers{}), core.Config{})
	l := s.listen(t, "modern", core.Filter{ToolsListChanged: true})
	var uris, want []string
	for i := range 20 { // the server goes through its sessions in any order
		uris = append(uris, fmt.Sprint("test://", i))
		want = append(want, updated+uris[i])
	}
	hangUp := stall(t, s.server, uris...)
	for own := range s.server.Sessions() { // the bridge's next one is behind the client's
		if strings.HasPrefix(own.ID(), gosdkbridge.SessionPrefix) {
			_ = own.Close()
		}
	}
	l.expect(tools)
	updates := s.listen(t, "updates", core.Filter{ResourceSubscriptions: uris})
	var telling sync.WaitGroup
	for _, uri := range uris {
		telling.Go(func() { update(t, s.server, uri) })
	}
	updates.expect(want...)
	addTool(s.server, "late")
	l.expect(tools)
	addTool(s.server, "later still") // while the round before goes on
	l.expect(tools)
	hangUp()
	telling.Wait()
}
