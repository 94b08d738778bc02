// Package nodes connects examples to the broker that a URL names.
package nodes

import (
	"fmt"
	"net/url"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	mcpnats "github.com/mcplisten/mcplisten/brokers/nats"
	mcpredis "github.com/mcplisten/mcplisten/brokers/redis"
	"github.com/mcplisten/mcplisten/core"
)

// Connect returns the broker at a URL, nats://… or redis://…, for the endpoint with
// the given name, and what closes its connection. The server need not be up yet.
func Connect(address, endpoint string) (broker core.Broker, closing func(), err error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, nil, err
	}
	switch u.Scheme {
	case "nats", "tls":
		nc, err := nats.Connect(address, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
		if err != nil {
			return nil, nil, err
		}
		b, err := mcpnats.New(nc, "mcplisten."+endpoint)
		if err != nil {
			nc.Close()
			return nil, nil, err
		}
		return b, nc.Close, nil
	case "redis", "rediss":
		options, err := redis.ParseURL(address)
		if err != nil {
			return nil, nil, err
		}
		client := redis.NewClient(options)
		b, err := mcpredis.New(client, "mcplisten:"+endpoint)
		if err != nil {
			_ = client.Close()
			return nil, nil, err
		}
		return b, func() { _ = client.Close() }, nil
	default:
		return nil, nil, fmt.Errorf("a broker is nats://… or redis://…, not %q", address)
	}
}
