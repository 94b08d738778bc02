// Package core is the engine behind MCP subscriptions/listen (revision
// 2026-07-28): it parses and validates listen requests, keeps the open
// subscriptions of one endpoint, and delivers changes to them in order, without
// ever losing one and without ever making a publisher wait.
//
// A [Hub] owns the subscriptions of one MCP endpoint in one process. A transport
// parses a request ([ParseMessage], [Hub.ParseListen]), opens a subscription
// ([Hub.Open]) and lets it run ([Subscription.Serve]); the application calls
// [Hub.Publish] where its data changes.
//
// A change is a level, not an event: it says "this is stale, fetch it again" and
// carries no payload. Two unsent changes of one thing are one. So what a
// subscription has pending is a set, bounded by its filter, and a slow client
// gets fewer notifications, never a missed one.
//
// The package knows no transport, no framework and no telemetry, and imports the
// standard library only.
package core
