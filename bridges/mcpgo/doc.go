// Package mcpgobridge ties a server of github.com/mark3labs/mcp-go to a hub: what
// that server announces is published, without being said twice.
//
// [Attach] is the one call. From then on each change that goes through the server's
// own API (AddTool, DeletePrompts, AddResources, SendNotificationToAllClients and the
// like) reaches the streams of subscriptions/listen, whether or not a client of an
// older revision is connected; the hub delivers what the server advertises, and a
// resource is subscribed to on the server while a stream listens to it. The other way
// round, what the application or another node publishes on the hub reaches the
// clients of the server that speak an older revision.
//
// The server goes on serving everything but subscriptions/listen, which the adapter
// in front of it takes (package mcphttp, with its Middleware).
package mcpgobridge
