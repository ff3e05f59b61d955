# The targets people use. CI calls these and nothing else.
GO ?= go
SEED ?= 1
SEEDS ?= 200
STEPS ?= 20000

STATICCHECK = $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.7.0

GREMLINS = $(GO) run github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0
PKG ?= guard scope inflight

.PHONY: demo test race lint generate proto sim rules mutants crash bench build

demo: ## the main job, with nothing installed
	$(GO) run ./cmd/berth demo --out out

test: ## every test, as the README says
	$(GO) test ./...

race: ## every test under the race detector
	$(GO) test -race ./...

lint: ## formatting, vet and staticcheck, all obeyed
	@files=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$files" || { echo "not gofmt-ed: $$files"; exit 1; }
	$(GO) vet ./...
	$(STATICCHECK) ./...

generate: ## write generated files again
	$(GO) generate ./...

proto: ## write the code of the API's messages again, which takes some minutes
	cd api && $(GO) run github.com/bufbuild/buf/cmd/buf@v1.60.0 lint && $(GO) run github.com/bufbuild/buf/cmd/buf@v1.60.0 generate

sim: ## the long simulation: SEED= replays one seed, else SEEDS of them
	$(GO) run ./internal/simulate/cmd -seed $(SEED) -seeds $(SEEDS) -steps $(STEPS)

rules: ## take each rule away in turn: its test must fail
	$(GO) run ./rules

mutants: ## change one operator at a time: a test must fail. PKG= for another package
	for p in $(PKG); do \
		$(GO) test -count=1 ./$$p && \
		$(GREMLINS) unleash --workers 2 --timeout-coefficient 20 --invert-logical --invert-loopctrl ./$$p || exit 1; \
	done

crash: ## kill -9 a broker under load, 50 times
	BERTH_CRASH_ROUNDS=50 $(GO) test -count=1 -run 'TestKill' -v ./broker

bench: ## the benchmarks beside the code
	$(GO) test -run '^$$' -bench . -benchmem ./lease/machine ./store/pebble ./broker ./guard ./scope ./inflight

build: ## for every system we ship to
	GOOS=linux $(GO) build ./...
	GOOS=darwin $(GO) build ./...
	GOOS=windows $(GO) build ./...
