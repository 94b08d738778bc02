//go:build !linux

package main

// This file tells whoever builds it elsewhere what is missing: the measurements read /proc and the load generator needs epoll.

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "compare: this benchmark needs Linux")
	os.Exit(1)
}
