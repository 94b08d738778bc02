// Package client is the listening side of MCP subscriptions/listen (revision
// 2026-07-28): it opens subscriptions, waits for the acknowledgment, yields what
// changed, and tells a goodbye from a fault.
//
// [Listen] opens one subscription and reports how it ended. [Follow] keeps one
// up: it reconnects with backoff and says when there was a gap, since the
// protocol replays nothing.
//
//	f, err := client.Follow(ctx, client.URL("https://example.com/mcp"), core.Filter{ToolsListChanged: true})
//	…
//	for n := range f.Notifications() {
//		switch n.Kind {
//		case client.Started, client.Relist: // list everything
//		case client.Tools: // list the tools
//		}
//	}
//	fmt.Println(f.End())
//
// The server is an [Endpoint]: a [URL], a [Command] that is run and spoken to over
// its standard streams, or a [Pair] of streams that is open already.
//
// A notification says "this is stale, fetch it again". What the consumer has not
// taken yet is kept as a set: two notifications of one thing are one, a consumer
// that is busy gets fewer and misses none, and memory is bounded by the filter.
//
// Servers are not trusted. What breaks the protocol's rules ends the subscription
// with a [*ViolationError] that says which rule it was.
package client
