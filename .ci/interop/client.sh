#!/usr/bin/env bash
# The client against the servers of the official Go and TypeScript SDKs and of mcp-go, over HTTP and over
# standard streams, and what mcplisten check finds in them. See interop/client.
set -euo pipefail

server_version=2.4.0
node_version=2.1.2
zod_version=4.6.7

modules=$TMPDIR/typescript
mkdir "$modules"
(cd "$modules" && npm install --no-audit --no-fund --no-save --ignore-scripts \
  "@modelcontextprotocol/server@$server_version" "@modelcontextprotocol/node@$node_version" "zod@$zod_version" >npm.log 2>&1) ||
  { tail -n 20 "$modules/npm.log"; exit 1; }

cd interop/client
GOWORK=off MCPLISTEN_INTEROP_NODE=$modules timeout -k 10 5m go test -count=1 .
