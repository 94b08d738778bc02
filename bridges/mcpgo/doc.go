// Package mcpgobridge ties a server of github.com/mark3labs/mcp-go to a hub, so that
// what the server already announces need not be said twice:
//
//	bridge, err := mcpgobridge.Attach(srv, core.Config{})
//	…
//	listen, err := mcphttp.New(bridge.Hub(), mcphttp.WithLegacyMethods())
//	…
//	mux.Handle("/mcp", listen.Middleware(server.NewStreamableHTTPServer(srv)))
//
// From the server to the hub: each change that goes through the server's own API
// (AddTool, DeletePrompts, SetResources, SendNotificationToAllClients with an updated
// resource, and the like) is published, whether or not any other client is connected.
// The first change goes out at once, what follows within [DefaultInterval] becomes
// one notification for each thing that changed.
//
// Capabilities: the hub delivers what the server advertises at the time, and what the
// application publishes on the hub by itself, which it names in
// [core.Config].Capabilities. The answer to server/discover and the acknowledgment of
// a listen request agree.
//
// Resources: the first stream that listens to a resource subscribes the bridge to it
// at the server, and the last one ends that. So the server's hooks for subscriptions
// are called, once for all streams, and an update that is sent to subscribers alone
// reaches them. Who may listen is decided by the hub's Authorizer.
//
// From the hub to the server: what the application or another node publishes for
// everybody is sent to the server's own clients, those of older revisions: list
// changes to all sessions, updates to those that subscribed. What came from the server
// does not go back. Where the server does not advertise a kind of change, its clients
// are not told of it.
//
// # The bridge's session
//
// mcp-go tells sessions, without waiting, and drops what finds no room. The bridge is
// a session that is registered with the server like any other; its id begins with
// [SessionPrefix]. It always has room, or knows that it may have had none and then
// tells every stream that everything changed. So it does when somebody has
// unregistered it, and registers it again.
//
// Changes of single sessions (AddSessionTool and the like) and notifications of other
// kinds are not for a hub: they stay with the server.
package mcpgobridge
