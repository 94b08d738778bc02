// The reader of messages against anything.

package client_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/mcplisten/mcplisten/client"
)

// FuzzMessages: whatever lines a server sends, nothing panics, nothing but the
// two kinds of error comes out, nothing is told before the acknowledgment or
// after the end, and nothing that was not asked for.
func FuzzMessages(f *testing.F) {
	const id = "x"
	seed := func(messages ...string) {
		f.Add([]byte(strings.ReplaceAll(strings.Join(messages, "\n"), idPlace, `"`+id+`"`)))
	}
	seed(toolsAck, toolsNote, goodbye)
	seed(goodbye, toolsAck)
	seed(toolsAck, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"uri":"file:///a/b"}}`)
	seed(`{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no","data":[1]}}`)
	seed(toolsAck, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":ID}}`)
	seed(strings.Replace(toolsAck, `"toolsListChanged":true`, `"jobIds":["a"]`, 1), `{"jsonrpc":"2.0","method":"notifications/jobs","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"job":"a"}}`)
	seed(`[]`, `null`, `{"params":{"_meta":null}}`, `{"jsonrpc":"2.0","id":null,"result":{"_meta":[]}}`)
	f.Fuzz(func(t *testing.T, stream []byte) {
		asked := toolsFilter
		asked.Keys = map[string][]string{jobs.Member: {"a"}}
		r := client.NewRead(id, asked, jobs)
		ended := false
		for line := range bytes.Lines(stream) {
			over, err := r.Take(line)
			var refused *client.RefusedError
			var violation *client.ViolationError
			switch {
			case err == nil && ended:
				t.Fatalf("a message after the end passed: %q", line)
			case err != nil && !over:
				t.Fatalf("an error, but not over: %v", err)
			case err != nil && !errors.As(err, &refused) && !errors.As(err, &violation):
				t.Fatalf("another error: %v", err)
			case err != nil && len(err.Error()) > 2000:
				t.Fatalf("an error of %d bytes", len(err.Error()))
			case over && err == nil && r.Acks != 1:
				t.Fatalf("a good end after %d acknowledgments", r.Acks)
			}
			if ended = over; err != nil {
				break
			}
		}
		if r.Acks > 1 || r.Acks == 0 && len(r.Notes) > 0 {
			t.Fatalf("%d acknowledgments, and %v", r.Acks, r.Notes)
		}
		for _, n := range r.Notes {
			asked := n == client.Notification{Kind: client.Tools} || n.Kind == client.Updated && strings.HasPrefix(n.URI, "file:///a") ||
				n.Kind == client.Value && n.Method == jobs.Method && n.Key == "a" && n.Params() != nil
			if !asked {
				t.Fatalf("told %v", n)
			}
		}
	})
}
