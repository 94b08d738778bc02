package main

// This file says what the figures were taken on, and how much the machine takes.

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/mcplisten/mcplisten/bench/internal/openfiles"
)

type machine struct {
	cpu, kernel string
	cpus        int
	memoryMB    int64
	goVersion   string
	commit      string
	versions    []string // of the modules compared
}

func thisMachine(ctx context.Context) machine {
	m := machine{cpu: "unknown", kernel: "unknown", cpus: runtime.NumCPU(), goVersion: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH, commit: "unknown"}
	if name := field("/proc/cpuinfo", "model name"); name != "" {
		m.cpu = name
	}
	m.memoryMB = kilobytes("MemTotal") >> 10
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.kernel = "Linux " + strings.TrimSpace(string(release))
	}
	if out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude=*").Output(); err == nil {
		m.commit = strings.TrimSpace(string(out))
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		compared := []string{
			"github.com/modelcontextprotocol/go-sdk", "github.com/mark3labs/mcp-go", "github.com/go-chi/chi/v5", "github.com/labstack/echo/v4",
			"github.com/gin-gonic/gin", "go.opentelemetry.io/otel/sdk",
		}
		for _, dep := range info.Deps {
			if slices.Contains(compared, dep.Path) {
				m.versions = append(m.versions, dep.Path+" "+dep.Version)
			}
		}
	}
	return m
}

// field returns the value of the first line "NAME: VALUE" of a file below /proc.
func field(file, name string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func kilobytes(name string) int64 {
	kb, _ := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", name), " kB"), 10, 64) // zero says unknown
	return kb
}

// most returns the largest number of streams of which each of so many rows can hold as many at the same time, and what bounds it.
func most(rows int) (streams int, why string, err error) {
	files, err := openfiles.Most()
	if err != nil {
		return 0, "", err
	}
	// More than any row takes, both ends of the connection and the load generator's share included.
	const each = 80 << 10
	free := int(min(kilobytes("MemAvailable")<<10/10*8, math.MaxInt)) / each / max(rows, 1)
	if free < files {
		return free, fmt.Sprintf("the memory that is free, for %d rows at a time", rows), nil
	}
	return files, fmt.Sprintf("the hard limit of open files of one process, %d", files+openfiles.Spare), nil
}
