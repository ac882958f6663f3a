# The commands of the project. What CI runs stands in .ci/run, once.

.PHONY: help fmt vet lint test race proto fuzz example quickstart failover crowd ci verify verify-planted

help: ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-14s %s\n", $$1, $$2}' Makefile

fmt: ## format the Go files
	gofmt -w $$(git ls-files --cached --others --exclude-standard '*.go')

vet: ## go vet
	.ci/run vet

lint: ## staticcheck, at the version that CI has
	.ci/run lint

test: ## the tests, as in the README
	go test ./...

race: ## the tests under the race detector
	.ci/run race

proto: ## generate the Go code of the .proto files
	.ci/run packages
	proto/gen.sh

fuzz: ## feed made-up bytes to the decoder of histories, a minute
	go test ./history -run '^$$' -fuzz FuzzDecode -fuzztime 1m

example: ## run the example: a saga through crashes
	go run ./examples/saga

quickstart: ## run every command of docs/quickstart.md
	.ci/quickstart

failover: ## measure how long a lost worker costs
	go run ./bench/failover

crowd: ## measure what guests cost an engine
	go run ./bench/crowd

ci: ## everything that CI checks
	.ci/run

verify: ## the long form of a layer: LAYER=all BUDGET=40m SEED=n, added up in docs/VERIFICATION.md
	go run ./test/verify -layer $(or $(LAYER),all) -budget $(or $(BUDGET),40m) -seed $(or $(SEED),0)

verify-planted: ## plant bugs, each of which must be caught: ONLY=pattern BUDGET=3m SEED=n
	go run ./test/planted -record -only '$(ONLY)' -budget $(or $(BUDGET),3m) -seed $(or $(SEED),0)
