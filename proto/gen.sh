#!/usr/bin/env bash
# Generates the Go code of the .proto files into enginepb and enginerpc, or into
# the directory given (CI compares that with what is committed). protoc comes
# from the system; the plugins are pinned here.
set -euo pipefail
cd "$(dirname "$0")"
out=${1:-.}
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
GOBIN=$bin go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
GOBIN=$bin go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
mkdir -p "$out"
PATH=$bin:$PATH protoc -I . \
  --go_out="$out" --go_opt=module=github.com/engined/engined/proto \
  --go-grpc_out="$out" --go-grpc_opt=module=github.com/engined/engined/proto \
  engined/v1/*.proto
# The generated header names the system's protoc; its version says nothing of
# the code and differs between machines.
find "$out" -name '*.pb.go' -exec sed -i -E '/^\/\/ (-|\t)?.*protoc( |-gen-go |-gen-go-grpc ).*v[0-9]/d' {} +
