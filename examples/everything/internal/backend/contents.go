// Prompts and resources, and what they hold.

package backend

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// ClockURI is a resource that changes by itself. Whoever runs the clock publishes
// it; see the Watcher of examples/everything.
const ClockURI = "everything://clock"

// The resources that change_resource knows; it takes any other URI as well.
const (
	notesURI = "everything://notes"
	planURI  = "everything://plan"
	spareURI = "everything://spare"
)

var changeable = []string{notesURI, planURI}

func (s *Server) addPrompts() {
	s.addPrompt("test_simple_prompt", "One message.",
		&mcp.TextContent{Text: "This is a simple prompt for testing."})
	s.addPrompt("test_prompt_with_image", "An image and a message.",
		picture(), &mcp.TextContent{Text: "Please analyze the image above."})
	s.mcp.AddPrompt(&mcp.Prompt{
		Name: "test_prompt_with_arguments", Description: "A message made of two arguments.",
		Arguments: []*mcp.PromptArgument{{Name: "arg1", Required: true}, {Name: "arg2", Required: true}},
	}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		args := req.Params.Arguments
		return messages(&mcp.TextContent{
			Text: "Prompt with arguments: arg1='" + args["arg1"] + "', arg2='" + args["arg2"] + "'",
		}), nil
	})
	s.mcp.AddPrompt(&mcp.Prompt{
		Name: "test_prompt_with_embedded_resource", Description: "A resource and a message.",
		Arguments: []*mcp.PromptArgument{{Name: "resourceUri", Required: true}},
	}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return messages(embedded(req.Params.Arguments["resourceUri"], "text/plain", "Embedded resource content for testing."),
			&mcp.TextContent{Text: "Please process the embedded resource above."}), nil
	})
	s.mcp.AddPrompt(&mcp.Prompt{Name: "test_input_required_result_prompt", Description: "Asks for the context first."},
		func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			if about, ok := answered[string](req.Params.InputResponses, "user_context", "context"); ok {
				return messages(&mcp.TextContent{Text: "Context: " + about}), nil
			}
			return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{
				"user_context": question("What context should the prompt use?", "context", "string"),
			}}, nil
		})
}

// addPrompt adds a prompt that is always the same.
func (s *Server) addPrompt(name, description string, contents ...mcp.Content) {
	s.mcp.AddPrompt(&mcp.Prompt{Name: name, Description: description},
		func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return messages(contents...), nil
		})
}

func messages(contents ...mcp.Content) *mcp.GetPromptResult {
	result := &mcp.GetPromptResult{}
	for _, content := range contents {
		result.Messages = append(result.Messages, &mcp.PromptMessage{Role: "user", Content: content})
	}
	return result
}

func complete(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{}}}, nil
}

func (s *Server) addResources() {
	s.addText(notesURI, "notes", "Changes when change_resource is called.", func() string { return "Notes, version " + s.version(notesURI) })
	s.addText(planURI, "plan", "Changes when change_resource is called.", func() string { return "A plan, version " + s.version(planURI) })
	s.addText(ClockURI, "clock", "Changes every two seconds while somebody listens.", func() string { return time.Now().Format(time.RFC3339) })
	s.addText("test://static-text", "static-text", "Never changes.",
		func() string { return "This is the content of the static text resource." })
	s.mcp.AddResource(&mcp.Resource{
		URI: "test://static-binary", Name: "static-binary", Description: "An image.", MIMEType: "image/png",
	}, func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return contents(&mcp.ResourceContents{URI: req.Params.URI, MIMEType: "image/png", Blob: pixel}), nil
	})
	const before, after = "test://template/", "/data"
	s.mcp.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: before + "{id}" + after, Name: "template", Description: "As many as there are ids.", MIMEType: "application/json",
	}, func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		uri := req.Params.URI
		id := strings.TrimSuffix(strings.TrimPrefix(uri, before), after)
		body, err := json.Marshal(map[string]any{"id": id, "templateTest": true, "data": "Data for ID: " + id})
		if err != nil {
			return nil, err
		}
		return contents(&mcp.ResourceContents{URI: uri, MIMEType: "application/json", Text: string(body)}), nil
	})
}

func (s *Server) addSpareResource() {
	s.addText(spareURI, "spare", "Is there every other time.", func() string { return "Still here." })
}

// addText adds a resource of plain text.
func (s *Server) addText(uri, name, description string, read func() string) {
	s.mcp.AddResource(&mcp.Resource{URI: uri, Name: name, Description: description, MIMEType: "text/plain"},
		func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return contents(&mcp.ResourceContents{URI: uri, MIMEType: "text/plain", Text: read()}), nil
		})
}

func contents(c *mcp.ResourceContents) *mcp.ReadResourceResult {
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}
}

func embedded(uri, mimeType, body string) mcp.Content {
	return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: uri, MIMEType: mimeType, Text: body}}
}

func picture() mcp.Content { return &mcp.ImageContent{Data: pixel, MIMEType: "image/png"} }

func sound() mcp.Content { return &mcp.AudioContent{Data: silence(), MIMEType: "audio/wav"} }
