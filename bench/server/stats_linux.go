package server

// This file measures the process itself.

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
)

// measure returns the process's figures. The processor time comes first, and the streams are counted only if asked for, so that
// asking costs next to nothing within what is asked about. With gc it collects twice, because what pools hold survives once.
func measure(streams func() int, gc bool) (Stats, error) {
	s := Stats{Streams: -1, GoVersion: runtime.Version()}
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		return s, fmt.Errorf("server: processor time: %w", err)
	}
	s.CPUMicros = (ru.Utime.Nano() + ru.Stime.Nano()) / 1000
	if streams != nil {
		s.Streams = streams()
	}
	if gc {
		runtime.GC()
		debug.FreeOSMemory()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.HeapBytes, s.StackBytes = int64(m.HeapAlloc), int64(m.StackInuse)
	s.AllocBytes, s.Allocs = int64(m.TotalAlloc), int64(m.Mallocs)
	s.Goroutines = runtime.NumGoroutine()
	var err error
	s.RSSBytes, err = resident()
	return s, err
}

// resident prefers smaps_rollup, which walks the page tables: the counter in status lags by a batch per thread.
func resident() (int64, error) {
	for _, source := range [][2]string{{"/proc/self/smaps_rollup", "Rss:"}, {"/proc/self/status", "VmRSS:"}} {
		b, err := os.ReadFile(source[0])
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
			if f := strings.Fields(lines.Text()); len(f) >= 2 && f[0] == source[1] {
				kb, err := strconv.ParseInt(f[1], 10, 64)
				if err != nil {
					return 0, fmt.Errorf("server: resident memory: %w", err)
				}
				return kb << 10, nil
			}
		}
	}
	return 0, fmt.Errorf("server: no resident memory in /proc")
}
