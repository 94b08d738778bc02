// Policies of the example: tokens that end, limits to be seen on the status page,
// and a drain that refuses newcomers and exits with 0.

package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/examples/internal/listening"
)

func TestATokenThatHasEndedIs401(t *testing.T) {
	t.Parallel()
	eachFramework(t, func(t *testing.T, framework string) {
		p := start(t, "-framework", framework, "-tokens", "alice=s1,carol=s3:300ms")
		p.as("s3").Listen(t, all).Expect(t, core.MethodAcknowledged, "result", "end")
		if status, body := p.as("s3").Refused(t, all); status != http.StatusUnauthorized {
			t.Errorf("the same listen again: status %d, %s", status, body)
		}
		p.as("s1").Listen(t, all).Expect(t, core.MethodAcknowledged)
	})
}

func TestStatusPage(t *testing.T) {
	t.Parallel()
	p := start(t, "-tokens", "alice=s1", "-max-streams", "1")
	p.as("s1").Listen(t, `{"resourceSubscriptions":["everything://notes"]}`).Expect(t, core.MethodAcknowledged)
	for range 3 {
		if status, body := p.as("s1").Refused(t, all); status != http.StatusServiceUnavailable {
			t.Fatalf("at the limit: status %d, %s", status, body)
		}
	}
	status, page := listening.Client{}.Do(t, http.MethodGet, p.admin+"/status", "")
	if status != http.StatusOK || strings.Contains(page, "everything://notes") {
		t.Errorf("status %d, and it shows the URI:\n%s", status, page)
	}
	for _, want := range []string{"1 open stream<", "<td>alice</td>", "<td>limit</td><td class=\"n\">3</td>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not show %q:\n%s", want, page)
		}
	}
	if _, json := (listening.Client{}).Do(t, http.MethodGet, p.admin+"/status?format=json", ""); !strings.Contains(json, `"refused":{"limit":3}`) {
		t.Errorf("as JSON: %s", json)
	}
}
