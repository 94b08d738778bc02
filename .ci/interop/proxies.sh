#!/usr/bin/env bash
# nginx and HAProxy in front of examples/everything, as Debian has them. See interop/proxies.
set -euo pipefail

# Installing them must not start them as services.
install_proxies() {
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
  fi
  apt-get update
  apt-get install -y --no-install-recommends nginx-light haproxy
}

{ command -v nginx && command -v haproxy; } >/dev/null || (install_proxies) >"$TMPDIR/apt.log" 2>&1 ||
  { tail -n 20 "$TMPDIR/apt.log"; exit 1; }

go build -o "$TMPDIR/everything" ./examples/everything

# In the foreground: whoever stops this script stops it as well. Most of the time is waiting, so more
# run at once than there are processors.
MCPLISTEN_EVERYTHING=$TMPDIR/everything timeout --foreground -k 10 5m \
  go test -count=1 -timeout 4m -parallel 16 -v ./interop/proxies >"$TMPDIR/go.log" 2>&1 || { cat "$TMPDIR/go.log"; exit 1; }
if grep -q -e '--- SKIP' "$TMPDIR/go.log"; then cat "$TMPDIR/go.log"; exit 1; fi

sed -n 's/^ *proxies_test.go:[0-9]*: figures: //p' "$TMPDIR/go.log" | sort >"$TMPDIR/figures"
cat "$TMPDIR/figures"
nginx=$(nginx -v 2>&1)
haproxy=$(haproxy -v)
echo "nginx ${nginx##*/}, $(grep -oE -m 1 'HAProxy version [0-9.]+' <<<"$haproxy"), ms from publish to event, median (worst): $(
  sed -nE 's/^(.*)\.(conf|cfg): .*events median ([0-9.]+) ms, worst ([0-9.]+) ms.*/\1 \3 (\4)/p' "$TMPDIR/figures" | paste -sd, | sed 's/,/, /g'
); streams outlive idle limits of 3 s"
