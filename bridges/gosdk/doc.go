// Package gosdkbridge ties a server of the official Go SDK
// (github.com/modelcontextprotocol/go-sdk) to a hub, so that what the server
// already announces need not be said twice:
//
//	bridge, err := gosdkbridge.Attach(server, core.Config{})
//	…
//	listen, err := mcphttp.New(bridge.Hub(), mcphttp.WithLegacyMethods())
//	…
//	http.Handle("/mcp", listen.Middleware(bridge.Handler(handler, nil)))
//
// From the server to the hub: AddTool, RemoveResources, ResourceUpdated and their
// like publish on the hub, whether or not any other client is connected. Lists come
// through the server's own debounce, which sends one notification 10 ms after the
// last change; that alone would say nothing for as long as changes keep coming, so
// the bridge sees to it that a list's subscribers are told within [DefaultMaxDelay]
// of its first change all the same. It looks at what is registered, and does not see
// that the very same *mcp.Tool, *mcp.Prompt or *mcp.Resource is registered again and
// again: that is told of when it pauses, as without a bridge. A notification carries no
// more than its kind and URI.
//
// Capabilities: the hub delivers what the server advertises at the time, which
// changes when it gets its first tool, prompt or resource. So server/discover and
// the acknowledgment of a listen request agree. What the application publishes on
// the hub by itself it adds with [core.Config].Capabilities.
//
// Resources: the first subscriber of a URI subscribes the bridge to it at the server
// and the last one ends that, so that the server's SubscribeHandler and
// UnsubscribeHandler are called once for all of them. Who may listen is decided by
// the hub's Authorizer: the handlers see the bridge.
//
// From the hub to the server: what the application or another node publishes on the
// hub, for everybody, is sent to the server's own clients of older revisions, those
// that initialized: list changes to all of them, updates of a resource to those that
// subscribed to it. What came from the server does not go back. Changes for an
// audience stay on the hub, since nobody knows which principals those clients are.
// The SDK's own subscriptions/listen, where a transport without the hub in front
// offers it, is not told: only the SDK knows the ids of its streams.
//
// # The bridge's session
//
// The SDK tells sessions, and forgets what changes while it has none. So the bridge
// is one: a session within the process, over no transport, that the server's
// Sessions method yields with an ID that starts with [SessionPrefix]. Nothing that
// it asks passes through the server's middleware (SetCacheable of its options is
// called for the answers, as for any). It answers pings, and requests for
// roots, samples or elicitation with an error. A program that goes through Sessions
// to close them may close it: the bridge then attaches a new one and tells every
// stream that everything changed.
//
// The SDK's middleware cannot be taken off again. What [Attach] adds passes
// everything on, but that it makes the answer to server/discover agree with the hub.
package gosdkbridge
