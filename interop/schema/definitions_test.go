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

//go:embed tasks.schema.json
var tasksFile []byte

// The definitions by method, and by error code; the codes of JSON-RPC are defined
// for the member error, the protocol's own for the whole response.
var (
	notifications = map[string]string{
		"notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification",
		"notifications/tools/list_changed":         "ToolListChangedNotification",
		"notifications/prompts/list_changed":       "PromptListChangedNotification",
		"notifications/resources/list_changed":     "ResourceListChangedNotification",
		"notifications/resources/updated":          "ResourceUpdatedNotification",
		"notifications/tasks":                      taskNotification,
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
		-32021: "MissingRequiredClientCapabilityError",
		-32022: "UnsupportedProtocolVersionError",
	}
)

// taskNotification is the one definition that is the tasks extension's.
const taskNotification = "TaskStatusNotification"

// definitions are the compiled ones, and how often each was met.
type definitions struct {
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
	met      map[string]int
}

func newDefinitions() (*definitions, error) {
	c := jsonschema.NewCompiler() // Draft 2020-12, as the files say
	for name, text := range map[string][]byte{"mcp.json": schemaFile, "tasks.json": tasksFile} {
		file, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		if err := c.AddResource(name, file); err != nil {
			return nil, err
		}
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
		file := "mcp.json"
		if name == taskNotification {
			file = "tasks.json"
		}
		if s, err = d.compiler.Compile(file + "#/$defs/" + name); err != nil {
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
