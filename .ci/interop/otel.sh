#!/usr/bin/env bash
# OpenTelemetry: the traces of streams in a real Jaeger, and mcplisten beside the newest
# instrumentation of each framework.
#
# Jaeger is built from its Go module, as interop/otel/jaeger.mod pins it: about four minutes on two
# cores. The binary is kept for the next run.
set -euo pipefail
cd interop/otel
export GOWORK=off

pinned=$(cat jaeger.mod jaeger.sum | sha256sum | cut -c1-16)
jaeger=${XDG_CACHE_HOME:-${HOME:-$TMPDIR}/.cache}/mcplisten-ci/$(go env GOVERSION)/jaeger-$pinned
if [ ! -x "$jaeger" ]; then
  mkdir -p "$(dirname "$jaeger")"
  go build -modfile=jaeger.mod -ldflags='-s -w' -o "$jaeger.new" github.com/jaegertracing/jaeger/cmd/jaeger
  mv "$jaeger.new" "$jaeger"
fi

# newest.mod has the newest OpenTelemetry, which needs a newer Go than the library does.
MCPLISTEN_JAEGER=$jaeger go test -count=1 ./jaeger
go test -count=1 -modfile=newest.mod ./observer ./beside ./dashboard

version=$(go list -m -modfile=jaeger.mod -f '{{.Version}}' github.com/jaegertracing/jaeger)
newest=$(go list -m -modfile=newest.mod -f '{{.Version}}' go.opentelemetry.io/otel)
echo "traces came back from Jaeger $version; spans and metrics with OpenTelemetry $newest"
