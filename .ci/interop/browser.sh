#!/usr/bin/env bash
# The page of examples/everything in headless Chromium, on all four frameworks, from its own origin
# and from another one. See interop/browser/page.mjs.
set -euo pipefail

playwright_version=1.64.1
axe_version=4.10.3

command -v chromium >/dev/null || {
  apt-get update
  apt-get install -y --no-install-recommends chromium
} >"$TMPDIR/apt.log" 2>&1 || { tail -n 20 "$TMPDIR/apt.log"; exit 1; }

go build -o "$TMPDIR/everything" ./examples/everything

# Where the modules are, the script must be: that is where Node looks for them.
cp interop/browser/page.mjs "$TMPDIR/"
cd "$TMPDIR"
npm install --no-audit --no-fund --no-save --ignore-scripts \
  "playwright-core@$playwright_version" "axe-core@$axe_version" >npm.log 2>&1 || { tail -n 20 npm.log; exit 1; }

# In the foreground: whoever stops this script stops it as well.
timeout --foreground -k 10 5m node page.mjs "$TMPDIR/everything"
