//go:build unix

// Package openfiles has one idea: a stream costs a descriptor, so a process that means to hold many asks for them first, and
// says plainly when the machine will not give them.
package openfiles

import (
	"fmt"
	"math"
	"syscall"
)

// Spare is how many descriptors a process of this module needs beside its streams.
const Spare = 100

// Most returns how many streams one process can hold.
func Most() (int, error) {
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return 0, fmt.Errorf("openfiles: reading the limit: %w", err)
	}
	return int(min(lim.Max, math.MaxInt32)) - Spare, nil
}

// Raise lifts the soft limit of open files to the hard one, and fails if streams do not fit under that.
func Raise(streams int) error {
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return fmt.Errorf("openfiles: reading the limit: %w", err)
	}
	if lim.Cur < lim.Max {
		lim.Cur = lim.Max
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
			return fmt.Errorf("openfiles: raising the limit to %d: %w", lim.Max, err)
		}
	}
	if need := uint64(streams) + Spare; need > lim.Cur {
		return fmt.Errorf("openfiles: %d streams need %d open files in one process, and the hard limit here is %d: raise it (ulimit -Hn) or open fewer streams",
			streams, need, lim.Cur)
	}
	return nil
}
