// Authentication: what such a service has already. It knows nothing of listening.

package main

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
)

// users are the users by their tokens. A real service asks its token verifier.
var users = map[string]string{"secret": "alice"}

func authenticate(c *gin.Context) {
	token, _ := strings.CutPrefix(c.GetHeader("Authorization"), "Bearer ")
	user, ok := users[token]
	if !ok {
		c.Header("WWW-Authenticate", "Bearer")
		c.AbortWithStatusJSON(http.StatusUnauthorized, gin.H{"error": "a token is needed"})
		return
	}
	c.Set("user", user)
}

func user(c *gin.Context) string { return c.GetString("user") }
