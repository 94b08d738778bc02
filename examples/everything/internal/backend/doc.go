// Package backend is the MCP server that stands behind the listen handler of
// examples/everything: the official Go SDK's, with tools, prompts and resources
// to try notifications with, and the diagnostic ones that the official
// conformance suite calls by their names (test_…).
//
// It shows what such a server owes the hub: whenever it changes one of its
// lists or resources, it publishes that change.
package backend
