#!/usr/bin/env bash
# The official TypeScript client on the standard streams of examples/stdio. See
# interop/stdio/client.mjs.
set -euo pipefail

client_version=2.4.0

go build -o "$TMPDIR/stdio" ./examples/stdio

# Where the modules are, the script must be: that is where Node looks for them.
cp interop/stdio/client.mjs "$TMPDIR/"
cd "$TMPDIR"
npm install --no-audit --no-fund --no-save --ignore-scripts \
  "@modelcontextprotocol/client@$client_version" >npm.log 2>&1 || { tail -n 20 npm.log; exit 1; }

# In the foreground: whoever stops this script stops it as well.
timeout --foreground -k 10 5m node client.mjs "$TMPDIR/stdio" "$TMPDIR/files"
