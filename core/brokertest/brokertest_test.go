// The contract on the broker that comes with core, and on brokers that break it.

package brokertest_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/core/brokertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLocalBroker(t *testing.T) {
	brokertest.Run(t, func(*testing.T) brokertest.Cluster {
		var mu sync.Mutex
		endpoints := make(map[string]*core.LocalBroker)
		return brokertest.Cluster{Node: func(_ *testing.T, endpoint string) brokertest.Node {
			mu.Lock()
			defer mu.Unlock()
			if endpoints[endpoint] == nil {
				endpoints[endpoint] = new(core.LocalBroker)
			}
			return brokertest.Node{Broker: endpoints[endpoint]}
		}}
	})
}

// switched is a LocalBroker with a switch for each node.
type switched struct {
	*core.LocalBroker
	mu   sync.Mutex
	off  bool
	flip chan struct{} // closed and replaced
}

func (s *switched) set(off bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off != off {
		s.off = off
		close(s.flip)
		s.flip = make(chan struct{})
	}
}

func (s *switched) state() (off bool, flip chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.off, s.flip
}

var errOff = errors.New("switched off")

func (s *switched) Send(ctx context.Context, msg []byte) error {
	if off, _ := s.state(); off {
		return errOff
	}
	return s.LocalBroker.Send(ctx, msg)
}

func (s *switched) Receive(ctx context.Context, to core.BrokerReceiver) error {
	off, flip := s.state()
	if off {
		return errOff
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-flip:
			cancel()
		case <-ctx.Done():
		}
	}()
	return s.LocalBroker.Receive(ctx, to)
}

func switchedCluster(*testing.T) brokertest.Cluster {
	var mu sync.Mutex
	endpoints := make(map[string]*core.LocalBroker)
	var all []*switched
	setAll := func(off bool) {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range all {
			s.set(off)
		}
	}
	return brokertest.Cluster{
		Node: func(_ *testing.T, endpoint string) brokertest.Node {
			mu.Lock()
			defer mu.Unlock()
			if endpoints[endpoint] == nil {
				endpoints[endpoint] = new(core.LocalBroker)
			}
			s := &switched{LocalBroker: endpoints[endpoint], flip: make(chan struct{})}
			all = append(all, s)
			return brokertest.Node{
				Broker: s,
				Cut:    func(*testing.T) { s.set(true) },
				Mend:   func(*testing.T) { s.set(false) },
			}
		},
		Stop:  func(*testing.T) { setAll(true) },
		Start: func(*testing.T) { setAll(false) },
	}
}

func TestSwitchedBroker(t *testing.T) { brokertest.Run(t, switchedCluster) }

func TestOutage(t *testing.T) {
	for name, alone := range map[string]bool{"of all nodes": false, "of one node": true} {
		t.Run(name, func(t *testing.T) {
			brokertest.Outage(t, switchedCluster(t), brokertest.Load{Alone: alone})
		})
	}
}
