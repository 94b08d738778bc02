#!/usr/bin/env bash
# Brokers: hubs of several nodes over a real NATS server, which the tests embed, and a real
# redis-server, Debian's, which they start on loopback on a free port and end by its process.
set -euo pipefail

if ! command -v redis-server >/dev/null; then
  apt-get update
  apt-get install -y --no-install-recommends redis-server # starts nothing where there is no init
fi

(cd brokers/nats && go test -count=1 -race .)
(cd brokers/redis && go test -count=1 -race . -require-redis)

echo "the broker contract and outages on NATS $(cd brokers/nats && go list -m -f '{{.Version}}' github.com/nats-io/nats-server/v2)" \
  "and Redis $(redis-server --version | sed -n 's/.* v=\([^ ]*\).*/\1/p')"
