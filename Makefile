# make help is the manual.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# One toolchain for everyone; Go fetches it on first use. Any Go from the
# version in go.mod on builds the gateway, too: make build GOTOOLCHAIN=local
export GOTOOLCHAIN := go1.27.3

VERSION ?= devel
COMMIT  ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
CLI     := github.com/headgate-ai/headgate/internal/cli
LDFLAGS := -s -w -X $(CLI).Version=$(VERSION) -X $(CLI).Commit=$(COMMIT)

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
DEADCODE    := golang.org/x/tools/cmd/deadcode@v0.52.0

FUZZTIME ?= 10s
BENCH    ?= .
BENCHTIME ?= 200ms
ROUNDS   ?=
SHORT    ?=
ARGS     ?=

##@ Use

.PHONY: run
run: build ## Run the gateway with a demo model on 127.0.0.1:8080; no keys needed. With OPENAI_API_KEY or ANTHROPIC_API_KEY set, the real models too. ARGS='--listen 127.0.0.1:9000' passes flags.
	@exec bin/headgate demo $(ARGS)

.PHONY: build
build: ## Build the static binary bin/headgate. VERSION=v1.2.3 names a release.
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/headgate ./cmd/headgate

.PHONY: clean
clean: ## Remove what was built and installed here.
	rm -rf bin .cache test/sdk/node/node_modules

##@ Test

.PHONY: test
test: test-unit test-bare test-sdk test-readme ## Everything: unit tests with the race detector and without where that differs, the vendors' SDKs, the examples of the README.

.PHONY: packages
packages: ## The Debian packages of servers that tests start, such as Redis; installed where that is allowed.
	@scripts/packages.sh

.PHONY: test-unit
test-unit: packages ## The unit tests, with the race detector.
	go test -race ./...

# What the race detector changes: it allocates, it is ten times slower, so that
# tests of many calls or kills make fewer under it and those of speed none, and
# internal/socket takes other calls under it than in a release. Tests of what
# happens within milliseconds run with no others beside them.
BARE = ./internal/socket ./internal/edge/h1 ./internal/upstream/... ./internal/gateway ./internal/authn ./internal/condition ./internal/stream \
	./internal/wire/tokens ./internal/wire/trim
FAST = 'Alloc|Memory|Contended|MillionKeys|TestBucket|TestContract'
KEPT = 'Memory|TestClientLeaves|TestStreamsSurvive|TestKill|AllocatesNothing|TestSumOfCharges|HotSwap|TestProcessesShare'
TIMED = 'TestOutage|TestTwoGateways|TestRoundTrips|TestOneCutOff|TestKilledWhileCutOff|TestSignsOfLife|TestNginx'

.PHONY: test-bare
test-bare: ## Allocation, memory and time budgets, the full numbers of calls and kills, and the sockets as a release uses them: without the race detector.
	go test -count=1 $(BARE)
	go test -count=1 -run $(FAST) ./internal/journal ./internal/quota/... ./internal/store/sqlite
	go test -count=1 -run $(KEPT) ./internal/app ./internal/ledger
	go test -count=1 -parallel 4 -run $(TIMED) ./internal/store/redis
	go test -count=1 -run Shape ./lab/experiment

.PHONY: test-fast
test-fast: ## The unit tests without the race detector, results cached.
	go test ./...

.PHONY: test-sdk
test-sdk: build ## The OpenAI and Anthropic SDKs (Node and Go) against the gateway.
	test/sdk/run.sh

.PHONY: test-readme
test-readme: build ## The examples of the README, as they stand there.
	scripts/readme-test.sh

.PHONY: fuzz
fuzz: ## Every fuzz target for FUZZTIME (10s) each. FUZZ=jsonspan runs those of packages with that in their names.
	scripts/fuzz.sh $(FUZZTIME) '$(FUZZ)'

.PHONY: soak
soak: build ## Mixed load for 30 minutes at half of what the machine can do; nothing may be lost, grow or stay behind. SHORT=1 takes two minutes.
	go run ./lab/soak --for $(if $(SHORT),45s,30m)

.PHONY: hold
hold: build ## 5,000 streams held for a minute, or as many as the limit on descriptors allows, with reloads and a drain among them.
	go run ./lab/soak --hold 5000 --for 60s

.PHONY: h2spec
h2spec: build ## HTTP/2 conformance, over TLS and h2c, beside a bare net/http server.
	scripts/h2spec.sh

.PHONY: bench
bench: build ## The gateway against a bare Go reverse proxy: about 20 minutes on a quiet machine. Writes docs/performance.md and fails if a promise is not kept. SHORT=1 is a trial of two or three minutes that does neither. ROUNDS=5 measures more often; ARGS='--scenarios unary' and the like as bin/bench --help says.
	go build -trimpath -o bin/bench ./lab/bench
	bin/bench $(if $(SHORT),--short,--gate --write docs/performance.md) $(if $(ROUNDS),--rounds $(ROUNDS)) --json bin/bench.json $(ARGS)

.PHONY: bench-go
bench-go: ## The Go benchmarks, for BENCHTIME (200ms) each. BENCH=Scan runs those with that in their names.
	go test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem ./...

##@ Check

.PHONY: lint
lint: ## Format, vet, tidy, staticcheck, code that nothing reaches.
	@unformatted=$$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0 gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "not formatted; run gofmt -w on:" $$unformatted; exit 1; fi
	go vet ./...
	go mod tidy -diff
	go run $(STATICCHECK) ./...
	@dead=$$(go run $(DEADCODE) -test ./...); if [ -n "$$dead" ]; then echo "$$dead"; exit 1; fi

.PHONY: generate
generate: ## Write the documents that are made from the code anew.
	go test -count=1 ./internal/docs ./internal/config/reference -update

.PHONY: check-generated
check-generated: ## Check that those documents are what the code says.
	go test -count=1 ./internal/docs ./internal/config/reference

.PHONY: vulncheck
vulncheck: ## Known vulnerabilities that the code reaches, from a pinned copy of the Go database.
	scripts/vulncheck.sh

.PHONY: ci
ci: ## What the build server runs, step by step with times.
	.ci/run

.PHONY: help
help: ## This.
	@awk 'BEGIN { FS = ":.*## " } \
	/^##@ / { printf "\n%s\n\n", substr($$0, 5); next } \
	/^[a-z-]+:.*## / { n = split($$2, word, " "); line = ""; printf "  make %-16s", $$1; \
		for (i = 1; i <= n; i++) { if (length(line) + length(word[i]) > 76) { printf "%s\n%23s", line, ""; line = "" } line = line word[i] " " } \
		print line }' $(MAKEFILE_LIST)
	@echo
