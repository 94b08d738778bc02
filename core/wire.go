// The protocol's own names and numbers: methods, _meta keys, error codes.

package core

// ProtocolVersion is the one MCP revision that this package speaks.
const ProtocolVersion = "2026-07-28"

// SupportedVersions lists the protocol versions that a listen request may name.
func SupportedVersions() []string { return []string{ProtocolVersion} }

// Methods of the protocol that this library reads or writes.
const (
	MethodListen               = "subscriptions/listen"
	MethodAcknowledged         = "notifications/subscriptions/acknowledged"
	MethodToolsListChanged     = "notifications/tools/list_changed"
	MethodPromptsListChanged   = "notifications/prompts/list_changed"
	MethodResourcesListChanged = "notifications/resources/list_changed"
	MethodResourceUpdated      = "notifications/resources/updated"
	MethodCancelled            = "notifications/cancelled"
	MethodDiscover             = "server/discover"
	MethodInitialize           = "initialize"
)

// Keys of the protocol's _meta object.
const (
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
)

// JSON-RPC and MCP error codes.
const (
	CodeParseError         = -32700 // not JSON
	CodeInvalidRequest     = -32600 // not a JSON-RPC request, or an unusable id
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternalError      = -32603 // also: over a limit, shutting down
	CodeHeaderMismatch     = -32020 // HTTP headers do not agree with the body
	CodeMissingCapability  = -32021 // the client did not declare a capability that the request needs
	CodeUnsupportedVersion = -32022
)

// Names of the filter's members, as they are on the wire. They are
// case-sensitive.
const (
	filterTools     = "toolsListChanged"
	filterPrompts   = "promptsListChanged"
	filterResources = "resourcesListChanged"
	filterURIs      = "resourceSubscriptions"
)
