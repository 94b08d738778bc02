package main

import (
	"testing"

	"github.com/mcplisten/mcplisten/examples/internal/tasks/taskstest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestProgram(t *testing.T) { taskstest.Check(t, run) }
