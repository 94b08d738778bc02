// A service that mounts the endpoint on gin.

package mcpgin_test

import (
	"bufio"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/mcplisten/mcplisten/adapters/gin"
	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

func ExampleMount() {
	hub, err := core.NewHub(core.Config{Capabilities: core.Capabilities{ToolsListChanged: true}})
	if err != nil {
		log.Fatal(err)
	}
	mcp, err := mcphttp.New(hub)
	if err != nil {
		log.Fatal(err)
	}
	// The MCP server that the service has already: it gets all but listen requests.
	server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintln(w, "the server's answer to", r.Header.Get("Mcp-Method"))
	})

	engine := gin.New()
	api := engine.Group("/api", authenticate)
	mcpgin.Mount(api, "/mcp", mcp, mcpgin.WithNext(gin.WrapH(server)), mcpgin.WithPrincipal(user))

	srv := httptest.NewServer(engine)
	defer srv.Close()
	defer srv.CloseClientConnections()
	fmt.Println(firstLine(srv, "tools/list"))
	fmt.Println(firstLine(srv, "subscriptions/listen"))
	// Output:
	// the server's answer to tools/list
	// data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1},"notifications":{"toolsListChanged":true}}}
}

// firstLine sends a request as an MCP client does, and returns the first line of
// the answer.
func firstLine(srv *httptest.Server, method string) string {
	req, err := http.NewRequest(http.MethodPost, srv.URL+"/api/mcp", strings.NewReader(`{
		"jsonrpc": "2.0", "id": 1, "method": "`+method+`", "params": {
			"_meta": {
				"io.modelcontextprotocol/protocolVersion": "2026-07-28",
				"io.modelcontextprotocol/clientCapabilities": {}
			},
			"notifications": {"toolsListChanged": true}
		}}`))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Authorization", "Bearer alice")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", method)
	resp, err := srv.Client().Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	line, _ := bufio.NewReader(resp.Body).ReadString('\n')
	return strings.TrimSpace(line)
}
