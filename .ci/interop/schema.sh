#!/usr/bin/env bash
# Every message of the black-box tests, on all four frameworks, against the protocol's JSON Schema and
# its rules in prose. See interop/schema.
set -euo pipefail

# Left out are those tests that replace the response writer, look at the request's body or measure
# memory: they would meet what does the watching.
not_watched='TestEveryMessage/.*/^(CannotFlush|NextUnread|StalledClientHoldsUpNobody|SwallowedFlushError|WriterPanics)$'

# In the foreground: whoever stops this script stops it as well.
MCPLISTEN_SCHEMA=1 timeout --foreground -k 10 8m \
  go test -count=1 -timeout 7m -skip "$not_watched" -v ./interop/schema >"$TMPDIR/go.log" 2>&1 || { cat "$TMPDIR/go.log"; exit 1; }

sed -n 's/^ *schema_test.go:[0-9]*: figures: //p' "$TMPDIR/go.log" >"$TMPDIR/figures"
[ "$(wc -l <"$TMPDIR/figures")" = 4 ] || { cat "$TMPDIR/go.log"; exit 1; }
cat "$TMPDIR/figures"
echo "JSON Schema of 2026-07-28: $(paste -sd';' "$TMPDIR/figures" | sed 's/;/; /g')"
