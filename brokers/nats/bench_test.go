// What a confirmed message costs: the time until the server has it.

package mcpnats_test

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/mcplisten/mcplisten/brokers/nats"
)

func BenchmarkSend(b *testing.B) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	if err != nil {
		b.Fatal(err)
	}
	s.Start()
	defer s.Shutdown()
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	broker, err := mcpnats.New(nc, "bench")
	if err != nil {
		b.Fatal(err)
	}
	msg := make([]byte, 200)
	for b.Loop() {
		if err := broker.Send(b.Context(), msg); err != nil {
			b.Fatal(err)
		}
	}
}
