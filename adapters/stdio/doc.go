// Package mcpstdio serves MCP subscriptions/listen (revision 2026-07-28) over
// newline-delimited JSON-RPC: on the standard streams, a Unix socket, or any
// other reader and writer.
//
// A [Server] is one MCP endpoint. As it is, it answers server/discover and
// subscriptions/listen; [WithNext] and [WithUpstream] put it in front of a
// function, of a child process or of another MCP server in this process, which
// get every other message and whose server/discover is made to say what the hub
// delivers.
//
// Any number of subscriptions share one connection. Each is a story of its own,
// told apart by the request's id: the acknowledgment first, then notifications,
// and the result last if the server ends it. Messages of different subscriptions
// may come in any order; a message is always one whole line, and nothing else is
// written. The protocol has no keep-alive here, so none is sent.
package mcpstdio
