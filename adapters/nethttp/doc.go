// Package mcphttp serves MCP subscriptions/listen (revision 2026-07-28) over
// HTTP: headers, statuses, server-sent events, deadlines, and the rules against
// DNS rebinding. It works with any router that takes an http.Handler, over
// HTTP/1.1 and HTTP/2.
//
// A [Handler] is one MCP endpoint. Used as it is, it answers server/discover and
// subscriptions/listen; with [Handler.Middleware] it takes the listen requests
// out of what an existing MCP server gets, and passes on everything else.
package mcphttp
