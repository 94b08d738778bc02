#!/usr/bin/env bash
# A real process of examples/everything ended by SIGTERM: with curl as the client, and with one that
# does not read. See interop/signals.
set -euo pipefail

command -v curl >/dev/null || {
  apt-get update
  apt-get install -y --no-install-recommends curl
} >"$TMPDIR/apt.log" 2>&1 || { tail -n 20 "$TMPDIR/apt.log"; exit 1; }

go build -o "$TMPDIR/everything" ./examples/everything

# In the foreground: whoever stops this script stops it as well. Most of the time is waiting, so more
# run at once than there are processors.
MCPLISTEN_EVERYTHING=$TMPDIR/everything timeout --foreground -k 10 5m \
  go test -count=1 -timeout 4m -parallel 16 -v ./interop/signals >"$TMPDIR/go.log" 2>&1 || { cat "$TMPDIR/go.log"; exit 1; }
curl_passed=$(grep -cE '^ +--- PASS: TestCurl/' "$TMPDIR/go.log")
[ "$curl_passed" = 12 ] || { cat "$TMPDIR/go.log"; exit 1; } # four frameworks; HTTP/1.1, and HTTP/2 without and with TLS

sed -n 's/^ *signals_test.go:[0-9]*: figures: //p' "$TMPDIR/go.log" | sort >"$TMPDIR/figures"
cat "$TMPDIR/figures"
echo "$(curl --version | grep -oE -m 1 '^curl [0-9.]+'): $curl_passed runs; with a client that does not read, exit after s: $(
  sed -nE 's/^([a-z]+): .*exit after ([0-9.]+) s.*/\1 \2/p' "$TMPDIR/figures" | paste -sd, | sed 's/,/, /g'
) (write timeout 6 s)"
