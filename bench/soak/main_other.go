//go:build !linux

// Command soak needs Linux: it counts what is open in /proc.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "soak: this needs Linux")
	os.Exit(1)
}
