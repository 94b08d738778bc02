package server

// This file has the bytes that the bare rows write: the same messages as mcplisten's, split where the request id goes.

import "encoding/json"

const (
	ackHead = `data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`
	ackTail = `},"notifications":{"toolsListChanged":true}}}` + "\n\n"

	changeHead = `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`
	changeTail = `}}}` + "\n\n"
)

// requestID returns the exact bytes of a request's id.
func requestID(body []byte) (string, error) {
	var request struct {
		ID json.RawMessage `json:"id"`
	}
	err := json.Unmarshal(body, &request)
	return string(request.ID), err
}
