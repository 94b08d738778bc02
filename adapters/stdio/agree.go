// Agreeing: what the server behind says of itself in server/discover, and what the
// hub delivers, must be one. A capability that is advertised and not delivered makes
// clients listen again and again; one that is delivered and not advertised is not
// asked for.

package mcpstdio

import (
	"bytes"
	"encoding/json"

	"github.com/mcplisten/mcplisten/core"
)

// agree returns the answer to server/discover, with the capabilities that the hub
// serves set to what it delivers: listChanged of tools, prompts and resources, and
// subscribe of resources, as far as the server has tools, prompts or resources at
// all. Any other answer comes back as it is.
func agree(answer []byte, delivers core.Capabilities) []byte {
	var message, result, capabilities map[string]json.RawMessage
	if json.Unmarshal(answer, &message) != nil ||
		json.Unmarshal(message["result"], &result) != nil ||
		json.Unmarshal(result["capabilities"], &capabilities) != nil {
		return answer
	}
	changed := false
	set := func(group, flag string, on bool) {
		var members map[string]json.RawMessage
		if json.Unmarshal(capabilities[group], &members) != nil || members == nil {
			return
		}
		if was := string(members[flag]) == "true"; was == on {
			return
		}
		changed = true
		delete(members, flag)
		if on {
			members[flag] = json.RawMessage("true")
		}
		capabilities[group] = encode(members)
	}
	set("tools", "listChanged", delivers.ToolsListChanged)
	set("prompts", "listChanged", delivers.PromptsListChanged)
	set("resources", "listChanged", delivers.ResourcesListChanged)
	set("resources", "subscribe", delivers.ResourceSubscriptions)
	if !changed {
		return answer
	}
	result["capabilities"] = encode(capabilities)
	message["result"] = encode(result)
	return encode(message)
}

// encode encodes members of a message that was decoded before, other values, the id
// among them, byte for byte.
func encode(members map[string]json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(members) // valid JSON can be encoded again
	return bytes.TrimRight(b.Bytes(), "\n")
}
