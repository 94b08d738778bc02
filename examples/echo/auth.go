// Authentication: what such a service has already. It knows nothing of listening.

package main

import "github.com/labstack/echo/v4"

// users are the users by their tokens. A real service asks its token verifier.
var users = map[string]string{"secret": "alice"}

func authenticate(token string, c echo.Context) (bool, error) {
	user, ok := users[token]
	c.Set("user", user)
	return ok, nil
}

func user(c echo.Context) string {
	user, _ := c.Get("user").(string)
	return user
}
