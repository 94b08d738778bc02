// Tools: those that change something and publish it, and the diagnostic ones
// that show that other answers pass the listen handler untouched.

package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcplisten/mcplisten/core"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// noArguments is the input schema of tools that take none.
const noArguments = `{"type":"object"}`

// run is a tool's work. An error becomes the JSON-RPC error of the call.
type run = func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error)

func (s *Server) addTool(name, description, schema string, run run) {
	s.mcp.AddTool(&mcp.Tool{Name: name, Description: description, InputSchema: json.RawMessage(schema)}, run)
}

// says returns a tool that answers with the same contents whenever it is called.
func says(contents ...mcp.Content) run {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: contents}, nil
	}
}

// text returns a result of one text.
func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

func (s *Server) addTools() {
	s.addTool("change_resource", "Changes a resource: whoever subscribed to the URI is notified.",
		`{"type":"object","properties":{"uri":{"type":"string","default":"`+notesURI+`"}}}`, s.changeResource)
	s.addTool("change_resource_list", "Adds a resource to the list, or takes it away again.", noArguments, s.changeResourceList)
	s.addTool("test_trigger_tool_change", "Adds a tool to the list, or takes it away again.", noArguments, s.changeToolList)
	s.addTool("test_trigger_prompt_change", "Adds a prompt to the list, or takes it away again.", noArguments, s.changePromptList)

	s.addTool("test_missing_capability", "Works for clients that can sample only.", noArguments, needsSampling)
	s.addTool("test_streaming_elicitation", "Reports progress on the response stream.", noArguments, reportsProgress)
	s.addTool("test_tool_with_progress", "Reports progress: 0, 50 and 100.", noArguments, reportsProgress)
	s.addTool("test_logging_tool", "Logs a line, for clients that asked for a log level.", noArguments, logs)
	s.addTool("test_error_handling", "Always fails.", noArguments, fails)

	s.addTool("test_simple_text", "Answers with a text.", noArguments,
		says(&mcp.TextContent{Text: "This is a simple text response for testing."}))
	s.addTool("test_image_content", "Answers with an image.", noArguments, says(picture()))
	s.addTool("test_audio_content", "Answers with a sound.", noArguments, says(sound()))
	s.addTool("test_embedded_resource", "Answers with a resource.", noArguments,
		says(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")))
	s.addTool("test_multiple_content_types", "Answers with a text, an image and a resource.", noArguments,
		says(&mcp.TextContent{Text: "Multiple content types test:"}, picture(),
			embedded("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`)))

	s.addTool("test_x_mcp_header", "Takes an argument that a header repeats.",
		`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"level":{"type":"integer"}}}`, repeatsArguments)
	s.addTool("json_schema_2020_12_tool", "Has an input schema of many keywords.", wideSchema, repeatsArguments)
}

// The tools that change something. They change it first and publish it then: who
// is notified and lists at once must not see the old list.

func (s *Server) changeResource(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args struct {
		URI string `json:"uri"`
	}
	if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
		return nil, invalidParams("uri is no string")
	}
	if args.URI == "" {
		args.URI = notesURI
	}
	s.changed(args.URI)
	if err := s.publisher.Publish(ctx, core.ResourceUpdated(args.URI)); err != nil {
		return nil, err
	}
	return text("changed %s", args.URI), nil
}

func (s *Server) changeResourceList(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	verb := s.toggle(spareURI, s.addSpareResource, func() { s.mcp.RemoveResources(spareURI) })
	if err := s.publisher.Publish(ctx, core.ResourcesListChanged()); err != nil {
		return nil, err
	}
	return text("%s the resource %s", verb, spareURI), nil
}

func (s *Server) changeToolList(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	const name = "comes_and_goes"
	verb := s.toggle(name,
		func() { s.addTool(name, "Is there every other time.", noArguments, says()) },
		func() { s.mcp.RemoveTools(name) })
	if err := s.publisher.Publish(ctx, core.ToolsListChanged()); err != nil {
		return nil, err
	}
	return text("%s the tool %s", verb, name), nil
}

func (s *Server) changePromptList(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	const name = "now_and_then"
	verb := s.toggle(name,
		func() { s.addPrompt(name, "Is there every other time.", &mcp.TextContent{Text: "Now."}) },
		func() { s.mcp.RemovePrompts(name) })
	if err := s.publisher.Publish(ctx, core.PromptsListChanged()); err != nil {
		return nil, err
	}
	return text("%s the prompt %s", verb, name), nil
}

// The diagnostic tools.

func needsSampling(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if client := req.ClientCapabilities(); client != nil && client.Sampling != nil { //nolint:staticcheck // deprecated, and in the suite
		return text("the client can sample"), nil
	}
	data, err := json.Marshal(mcp.MissingRequiredClientCapabilityData{
		RequiredCapabilities: &mcp.ClientCapabilities{Sampling: &mcp.SamplingCapabilities{}}, //nolint:staticcheck // likewise
	})
	if err != nil {
		return nil, err
	}
	return nil, &jsonrpc.Error{
		Code: mcp.CodeMissingRequiredClientCapabilities, Message: "this tool needs a client that can sample", Data: data,
	}
}

// progressPause is long enough for the steps to arrive one by one.
const progressPause = 50 * time.Millisecond

func reportsProgress(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	token := req.Params.GetProgressToken()
	for _, done := range []float64{0, 50, 100} {
		if token != nil {
			err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: done, Total: 100})
			if err != nil {
				return nil, err
			}
		}
		select {
		case <-time.After(progressPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return text("finished; progress token: %v", token), nil
}

func logs(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	// The SDK drops the line if the request did not ask for this level.
	//nolint:staticcheck // deprecated, and in the conformance suite
	err := req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: "test_logging_tool was called"})
	if err != nil {
		return nil, err
	}
	return text("logged a line, if it was wanted"), nil
}

func fails(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	result := text("This tool intentionally returns an error for testing")
	result.IsError = true
	return result, nil
}

func repeatsArguments(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return text("called with %s", req.Params.Arguments), nil
}

func invalidParams(message string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: message}
}

// wideSchema uses what JSON Schema 2020-12 has beyond types and properties; the
// conformance suite compares it with what tools/list shows.
const wideSchema = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"$defs": {
		"address": {
			"$anchor": "addressDef",
			"type": "object",
			"properties": {"street": {"type": "string"}, "city": {"type": "string"}}
		}
	},
	"properties": {
		"name": {"type": "string"},
		"address": {"$ref": "#/$defs/address"},
		"contactMethod": {"type": "string", "enum": ["phone", "email"]},
		"phone": {"type": "string"},
		"email": {"type": "string"}
	},
	"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
	"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
	"then": {"required": ["phone"]},
	"else": {"required": ["email"]},
	"additionalProperties": false
}`
