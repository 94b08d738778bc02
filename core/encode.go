// Encoding: every message that a subscription writes. A notification is the same
// for all subscriptions but for the id, so each is a constant around a spliced id
// and nothing is marshalled on the way.

package core

import "encoding/json"

// Implementation names a piece of software: the protocol's Implementation.
type Implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

const (
	subscriptionMeta = `"_meta":{"` + MetaSubscriptionID + `":`
	notificationHead = `{"jsonrpc":"2.0","method":"`
	notificationMeta = `","params":{` + subscriptionMeta
)

// kindHeads are the notifications of the kinds up to the id.
var kindHeads = func() (heads [len(kindMethods)]string) {
	for k := range heads {
		heads[k] = notificationHead + kindMethods[k] + notificationMeta
	}
	return heads
}()

func appendListChanged(b []byte, k Kind, id ID) []byte {
	b = append(b, kindHeads[k]...)
	b = append(b, id.raw...)
	return append(b, `}}}`...)
}

func appendUpdated(b []byte, id ID, uri string) []byte {
	b = append(b, kindHeads[KindResourceUpdated]...)
	b = append(b, id.raw...)
	b = append(b, `},"uri":`...)
	b = appendString(b, uri)
	return append(b, `}}`...)
}

func appendAcknowledged(b []byte, id ID, honored Filter) []byte {
	b = append(b, notificationHead+MethodAcknowledged+notificationMeta...)
	b = append(b, id.raw...)
	b = append(b, `},"notifications":`...)
	b = honored.appendJSON(b)
	return append(b, `}}`...)
}

// appendResult appends the result that ends a subscription. serverInfo is the
// encoded _meta member with its leading comma, or empty.
func appendResult(b []byte, id ID, serverInfo string) []byte {
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, id.raw...)
	b = append(b, `,"result":{"resultType":"complete",`+subscriptionMeta...)
	b = append(b, id.raw...)
	b = append(b, serverInfo...)
	return append(b, `}}}`...)
}

func encodeServerInfo(info *Implementation) (string, error) {
	if info == nil {
		return "", nil
	}
	encoded, err := json.Marshal(info)
	return `,"` + MetaServerInfo + `":` + string(encoded), err
}
