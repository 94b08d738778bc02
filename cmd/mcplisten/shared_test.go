// A server with the fault that several had: one table of streams by bare id.

package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/mcplisten/mcplisten/core"
)

type byBareID struct {
	mu   sync.Mutex
	open map[string]func()
}

func (s *byBareID) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				ID json.RawMessage `json:"requestId"`
			} `json:"params"`
		}
		_ = json.Unmarshal(body, &m)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		id := string(m.ID) + string(m.Params.ID)
		s.mu.Lock()
		if end := s.open[id]; end != nil && (m.Method == core.MethodListen || m.Method == core.MethodCancelled) {
			end()
		}
		if m.Method == core.MethodListen {
			s.open[id] = cancel
		}
		s.mu.Unlock()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
