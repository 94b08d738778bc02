// The request: subscriptions/listen as it is sent.

package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/mcplisten/mcplisten/core"
)

// newID returns a request id that no other client uses by accident. The protocol
// needs it to be unique among the requests of one connection only, but there are
// servers that confuse the streams of clients with equal ids.
func newID() string { return "mcplisten-" + rand.Text() }

type wireMessage struct {
	Version string `json:"jsonrpc"`
	ID      string `json:"id,omitempty"`
	Method  string `json:"method"`
	Params  any    `json:"params"`
}

type listenParams struct {
	Meta          map[string]any `json:"_meta"`
	Notifications map[string]any `json:"notifications"`
}

// encodeListen returns the listen request.
func (c *config) encodeListen(ctx context.Context, id string, filter core.Filter) ([]byte, error) {
	meta := make(map[string]any, len(c.meta)+3)
	maps.Copy(meta, c.meta)
	if c.trace != nil {
		c.trace(ctx, func(key, value string) {
			if _, taken := meta[key]; !taken {
				meta[key] = value
			}
		})
	}
	meta[core.MetaProtocolVersion] = core.ProtocolVersion
	capabilities, err := c.declared(filter)
	if err != nil {
		return nil, err
	}
	meta[core.MetaClientCapabilities] = capabilities
	meta[core.MetaClientInfo] = c.info
	body, err := json.Marshal(wireMessage{"2.0", id, core.MethodListen, listenParams{meta, encodeFilter(filter)}})
	if err != nil {
		return nil, fmt.Errorf("client: _meta cannot be encoded: %w", err)
	}
	return body, nil
}

// encodeCancelled returns the notification that ends a subscription from the
// client's side, where the transport has no other way.
func encodeCancelled(id string) []byte {
	type params struct {
		ID string `json:"requestId"`
	}
	body, _ := json.Marshal(wireMessage{Version: "2.0", Method: core.MethodCancelled, Params: params{id}}) // cannot fail
	return body
}
