// Two of the program with one broker are one server.

package main

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/mcplisten/mcplisten/core"
)

func TestBroker(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server does not start")
	}
	here := start(t, "-broker", s.ClientURL())
	there := start(t, "-broker", s.ClientURL())
	stream := there.Listen(t, `{"toolsListChanged":true}`)
	stream.Expect(t, core.MethodAcknowledged)
	here.publish(t, "kind=tools")
	stream.Expect(t, core.MethodToolsListChanged)
	here.stop()
	there.stop()
	stream.Expect(t, "result", "end")
}

func TestNoSuchBroker(t *testing.T) {
	if _, err := newApp(settings{broker: "http://127.0.0.1"}); err == nil {
		t.Error("a broker over HTTP was accepted")
	}
}
