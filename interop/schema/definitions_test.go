// The protocol's own definitions of its messages.

package schema

import (
	"bytes"
	_ "embed"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed mcp-2026-07-28.schema.json
var schemaFile []byte

// The definitions by method, and by error code; the codes of JSON-RPC are defined
// for the member error, the protocol's own for the whole response.
var (
	notifications = map[string]string{
		"notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification",
		"notifications/tools/list_changed":         "ToolListChangedNotification",
		"notifications/prompts/list_changed":       "PromptListChangedNotification",
		"notifications/resources/list_changed":     "ResourceListChangedNotification",
		"notifications/resources/updated":          "ResourceUpdatedNotification",
	}
	errorMembers = map[int]string{
		-32700: "ParseError",
		-32600: "InvalidRequestError",
		-32601: "MethodNotFoundError",
		-32602: "InvalidParamsError",
		-32603: "InternalError",
	}
	errorResponses = map[int]string{
		-32020: "HeaderMismatchError",
		-32022: "UnsupportedProtocolVersionError",
	}
)

// definitions are the compiled ones, and how often each was met.
type definitions struct {
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
	met      map[string]int
}

func newDefinitions() (*definitions, error) {
	file, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaFile))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler() // Draft 2020-12, as the file says
	if err := c.AddResource("mcp.json", file); err != nil {
		return nil, err
	}
	return &definitions{compiler: c, compiled: make(map[string]*jsonschema.Schema), met: make(map[string]int)}, nil
}

// check holds a JSON text against a definition.
func (d *definitions) check(name string, text []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.compiled[name]
	if s == nil {
		var err error
		if s, err = d.compiler.Compile("mcp.json#/$defs/" + name); err != nil {
			return err
		}
		d.compiled[name] = s
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err == nil {
		err = s.Validate(value)
	}
	if err != nil {
		return fmt.Errorf("no %s: %w: %s", name, err, text)
	}
	d.met[name]++
	return nil
}
