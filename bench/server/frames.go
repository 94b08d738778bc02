package server

// This file has the bytes that the bare rows write: the same messages as mcplisten's, split where the request id goes.

const (
	ackHead = `data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`
	ackTail = `},"notifications":{"toolsListChanged":true}}}` + "\n\n"

	changeHead = `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`
	changeTail = `}}}` + "\n\n"
)
