// Authentication: what such a service has already. It knows nothing of listening.

package main

import (
	"context"
	"net/http"
	"strings"
)

// users are the users by their tokens. A real service asks its token verifier.
var users = map[string]string{"secret": "alice"}

type userKey struct{}

func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		user, ok := users[token]
		if !ok {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a token is needed", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
	})
}

func user(r *http.Request) string {
	user, _ := r.Context().Value(userKey{}).(string)
	return user
}
