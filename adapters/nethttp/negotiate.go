// Content negotiation: what the client sends, and what it accepts.

package mcphttp

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/mcplisten/mcplisten/core"
)

func checkContentType(header http.Header) error {
	mediaType, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" || len(header["Content-Type"]) > 1 {
		return &core.Error{
			Code: core.CodeInvalidRequest, Message: "the Content-Type is not application/json",
			Refusal: core.RefusedContentType,
		}
	}
	return nil
}

func checkAccept(header http.Header) error {
	if accepts(header["Accept"], "text", "event-stream") {
		return nil
	}
	return &core.Error{
		Code: core.CodeInvalidRequest, Message: "the Accept header does not admit text/event-stream",
		Refusal: core.RefusedAccept,
	}
}

// accepts reports whether an Accept header admits a media type (RFC 9110,
// section 12.5.1): the most specific range that covers it decides, and a weight
// of zero refuses. Ranges that cannot be read are ignored. No header admits all.
func accepts(header []string, main, sub string) bool {
	return weightOf(header, main, sub) > 0
}

// weightOf returns the weight that an Accept header gives a media type.
func weightOf(header []string, main, sub string) float64 {
	all := strings.Join(header, ",")
	if strings.Trim(all, " \t,") == "" { // elements of a list may be empty
		return 1
	}
	best, weight := 0, 0.0
	for part := range strings.SplitSeq(all, ",") {
		name, params, _ := strings.Cut(part, ";")
		specific := 0
		switch name = strings.ToLower(strings.TrimSpace(name)); name {
		case main + "/" + sub:
			specific = 3
		case main + "/*":
			specific = 2
		case "*/*":
			specific = 1
		}
		if specific > best {
			best, weight = specific, quality(params)
		} else if specific == best && specific > 0 {
			weight = max(weight, quality(params))
		}
	}
	return weight
}

// quality returns the weight among a media range's parameters, 1 where there is
// none or it cannot be read.
func quality(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(param, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		if q, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil && q >= 0 && q <= 1 {
			return q
		}
	}
	return 1
}
