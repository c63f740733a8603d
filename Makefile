# What a checkout needs: Go, make and git. The linter is built from tools/go.mod.
.PHONY: help all build test race lint lint-proof golden mutants bench fuzz cover sim sim-long jepsen jepsen-long docs rules clean

PACKAGES ?= ./...
FUZZTIME ?= 30s
SHARE    ?= 0/1
LINTER   := bin/golangci-lint

help:
	@echo "make all = build lint test; alone: build test race lint lint-proof golden mutants bench fuzz cover sim sim-long jepsen jepsen-long docs rules clean"

all: build lint test

build:
	go build -o bin/cpnode ./cmd/cpnode

test:
	go vet ./...
	go test $(PACKAGES)

race:
	go test -race -short $(PACKAGES)

lint: $(LINTER)
	go vet ./...
	$(LINTER) run ./...

# Shows that the linter refuses what it is to refuse.
lint-proof: $(LINTER)
	tools/lint-proof $(LINTER)

$(LINTER): tools/go.sum
	go build -C tools -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

# Replays the recorded traces with the built binary.
golden: build
	bin/cpnode replay --verify testdata/golden/*.jsonl

# Breaks the code in one place after the other; a named test must notice each time.
mutants:
	go run ./internal/mutants -share $(SHARE)

bench:
	go test -run '^$$' -bench . -benchmem $(PACKAGES)

# Runs every fuzz target for FUZZTIME.
fuzz:
	@git grep -h -o -E '^func Fuzz\w+' -- '*_test.go' | cut -c6- | while read -r target; do \
		package=./$$(dirname "$$(git grep -l "^func $$target(" -- '*_test.go')"); \
		echo "== $$package $$target"; \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x "$$package" || exit 1; \
	done

cover:
	go test -coverprofile bin/cover.out $(PACKAGES)
	go tool cover -func bin/cover.out | tail -1

# Simulates clusters under faults, seed after seed, for a minute or for a night's half hour.
sim:
	go run ./jepsen/sim/run --for 60s

sim-long:
	go run ./jepsen/sim/run --for 30m

# Breaks real processes in every way for five minutes, or for a night's half hour. The
# run and its verdict are left in RUN.
RUN ?= $(shell mktemp -u -d -t jepsen-XXXXXX)

jepsen:
	go run ./jepsen --faults all --for 5m $(RUN)

jepsen-long:
	go run ./jepsen --faults all --for 30m $(RUN)

# Writes the pages that are made from code.
docs:
	go run ./cmd/cpnode config reference > docs/configuration.md
	go test ./cmd/cpnode -count=1 -run '^TestMonitoring$$/^reference$$' -update

# Checks what is under deploy/; promtool is in Debian's package prometheus.
rules:
	promtool check config deploy/prometheus/prometheus.yml
	promtool test rules deploy/prometheus/rules_test.yml

clean:
	rm -rf bin
