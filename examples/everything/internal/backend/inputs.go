// Tools that need something from the client first. This revision has no requests
// from server to client: the answer asks, and the client calls again with what it
// was asked for and the state that came with the question.

package backend

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// seal signs the states that travel through clients.
type seal struct{ key [32]byte }

func (s *seal) init() error {
	_, err := rand.Read(s.key[:])
	return err
}

func (s *seal) sum(state string) []byte {
	mac := hmac.New(sha256.New, s.key[:])
	mac.Write([]byte(state))
	return mac.Sum(nil)
}

// close returns the sealed state.
func (s *seal) close(state string) string {
	return base64.RawURLEncoding.EncodeToString(s.sum(state)) + "." + state
}

// open returns the state of a sealed one, and fails where a client changed it.
func (s *seal) open(sealed string) (string, error) {
	encoded, state, _ := strings.Cut(sealed, ".")
	sum, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || !hmac.Equal(sum, s.sum(state)) {
		return "", invalidParams("requestState is not what this server sent")
	}
	return state, nil
}

func (s *Server) addInputTools() {
	const prefix = "test_input_required_result_"
	add := func(name, description string, run run) { s.addTool(prefix+name, description, noArguments, run) }
	add("elicitation", "Asks for a name.", asksName)
	add("sampling", "Asks for a completion.", asksCompletion)
	add("list_roots", "Asks for the client's roots.", asksRoots)
	add("multiple_inputs", "Asks for three things at once.", s.asksAll)
	add("capabilities", "Asks only for what the client can give.", asksWhatClientCan)
	add("multi_round", "Asks twice.", s.asksTwice)
	add("request_state", "Asks, and gives a state to keep.", s.asksToConfirm)
	add("tampered_state", "Asks, and refuses a changed state.", s.asksToConfirm)
}

// asks returns a result that asks for input.
func asks(state string, requests mcp.InputRequestMap) *mcp.CallToolResult {
	return &mcp.CallToolResult{InputRequests: requests, RequestState: state}
}

// question asks the user for one value.
func question(message, name, kind string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: message, RequestedSchema: &jsonschema.Schema{
		Type: "object", Properties: map[string]*jsonschema.Schema{name: {Type: kind}}, Required: []string{name},
	}}
}

// completion asks the client's model.
//
//nolint:staticcheck // sampling is deprecated, and in the conformance suite
func completion(message string) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{
		Messages:  []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: message}}},
		MaxTokens: 100,
	}
}

// answered returns what the user answered a question with, if they did.
func answered[T any](responses mcp.InputResponseMap, id, name string) (value T, ok bool) {
	if answer, is := responses[id].(*mcp.ElicitResult); is && answer != nil && answer.Action == "accept" {
		value, ok = answer.Content[name].(T)
	}
	return value, ok
}

// completed returns the model's text, if there is one.
func completed(responses mcp.InputResponseMap, id string) (string, bool) {
	//nolint:staticcheck // sampling is deprecated, and in the conformance suite
	answer, ok := responses[id].(*mcp.CreateMessageWithToolsResult)
	if !ok || answer == nil {
		return "", false
	}
	for _, content := range answer.Content {
		if t, is := content.(*mcp.TextContent); is {
			return t.Text, true
		}
	}
	return "", true
}

// rooted returns the client's roots, if it named them.
//
//nolint:staticcheck // roots are deprecated, and in the conformance suite
func rooted(responses mcp.InputResponseMap, id string) ([]*mcp.Root, bool) {
	answer, ok := responses[id].(*mcp.ListRootsResult)
	if !ok || answer == nil {
		return nil, false
	}
	return answer.Roots, true
}

func asksName(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if name, _ := answered[string](req.Params.InputResponses, "user_name", "name"); name != "" {
		return text("Hello, %s!", name), nil
	}
	return asks("", mcp.InputRequestMap{"user_name": question("What is your name?", "name", "string")}), nil
}

func asksCompletion(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if capital, ok := completed(req.Params.InputResponses, "capital_question"); ok {
		return text("The model says: %s", capital), nil
	}
	return asks("", mcp.InputRequestMap{"capital_question": completion("What is the capital of France?")}), nil
}

func asksRoots(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	roots, ok := rooted(req.Params.InputResponses, "client_roots")
	if !ok {
		//nolint:staticcheck // roots are deprecated, and in the conformance suite
		return asks("", mcp.InputRequestMap{"client_roots": &mcp.ListRootsParams{}}), nil
	}
	uris := make([]string, len(roots))
	for i, root := range roots {
		uris[i] = root.URI
	}
	return text("The client's roots: %s", strings.Join(uris, " ")), nil
}

func (s *Server) asksAll(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	responses := req.Params.InputResponses
	name, named := answered[string](responses, "user_name", "name")
	greeting, greeted := completed(responses, "greeting")
	roots, listed := rooted(responses, "client_roots")
	if named && greeted && listed {
		if _, err := s.seal.open(req.Params.RequestState); err != nil {
			return nil, err
		}
		return text("%s %s, with %s roots", greeting, name, strconv.Itoa(len(roots))), nil
	}
	return asks(s.seal.close("all"), mcp.InputRequestMap{
		"user_name":    question("What is your name?", "name", "string"),
		"greeting":     completion("Generate a greeting"),
		"client_roots": &mcp.ListRootsParams{}, //nolint:staticcheck // roots are deprecated, and in the conformance suite
	}), nil
}

func asksWhatClientCan(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if len(req.Params.InputResponses) > 0 {
		return text("thank you"), nil
	}
	requests := mcp.InputRequestMap{}
	if client := req.ClientCapabilities(); client != nil {
		if client.Elicitation != nil {
			requests["user_name"] = question("What is your name?", "name", "string")
		}
		if client.Sampling != nil { //nolint:staticcheck // deprecated, and in the conformance suite
			requests["greeting"] = completion("Generate a greeting")
		}
	}
	if len(requests) == 0 {
		return text("the client can give nothing that this tool could ask for"), nil
	}
	return asks("", requests), nil
}

func (s *Server) asksTwice(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	const second = "2 "
	responses, state := req.Params.InputResponses, ""
	if req.Params.RequestState != "" {
		var err error
		if state, err = s.seal.open(req.Params.RequestState); err != nil {
			return nil, err
		}
	}
	name, named := answered[string](responses, "step1", "name")
	color, colored := answered[string](responses, "step2", "color")
	switch {
	case state == "1" && named:
		return asks(s.seal.close(second+name), mcp.InputRequestMap{
			"step2": question("Step 2: What is your favorite color?", "color", "string"),
		}), nil
	case strings.HasPrefix(state, second) && colored:
		return text("%s likes %s", strings.TrimPrefix(state, second), color), nil
	default:
		return asks(s.seal.close("1"), mcp.InputRequestMap{
			"step1": question("Step 1: What is your name?", "name", "string"),
		}), nil
	}
}

func (s *Server) asksToConfirm(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if req.Params.RequestState != "" {
		if _, err := s.seal.open(req.Params.RequestState); err != nil {
			return nil, err
		}
		if _, ok := answered[bool](req.Params.InputResponses, "confirm", "ok"); ok {
			return text("state-ok: the state came back as it was sent"), nil
		}
	}
	return asks(s.seal.close("confirm"), mcp.InputRequestMap{"confirm": question("Please confirm", "ok", "boolean")}), nil
}
