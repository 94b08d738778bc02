package server

// This file is the rest of an MCP server, as far as the rows that have none of their own need one: it answers tools/list.

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

const toolsList = `"result":{"resultType":"complete","tools":[{"name":"bench","description":"does nothing","inputSchema":{"type":"object"}}]}}`

// otherMethods answers every request as if it were tools/list.
func otherMethods(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	id, err := requestID(body)
	if err != nil || id == "" {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s`, id, toolsList) // a client that went needs no answer
}

// requestID returns the exact bytes of a request's id.
func requestID(body []byte) (string, error) {
	var request struct {
		ID json.RawMessage `json:"id"`
	}
	err := json.Unmarshal(body, &request)
	return string(request.ID), err
}
