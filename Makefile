# Neuron. `make run` and `make test` are all that a newcomer needs: they install
# what is missing, build and go. `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
# Prerequisites are expanded when their rule is looked at, so that only a build
# lists the sources.
.SECONDEXPANSION:

BUILD := build
FUZZTIME ?= 10s
BENCHTIME ?= 1s
SOAK ?= 5m
TESTFLAGS ?=
BENCHFLAGS ?=
LOADFLAGS ?=
FAMILYFLAGS ?=
CROSS ?=
PACKAGES ?=
FORMATS ?=

# Every goal but these needs the tools. The file names the Go command to use; a
# rule below makes it, and make starts over with it.
ifneq ($(filter-out help clean setup,$(or $(MAKECMDGOALS),help)),)
include $(BUILD)/setup.mk
endif
GO ?= go

# The BitTorrent library would compile SQLite's C sources, for minutes, for a
# store that Neuron does not use. -trimpath everywhere: programs, vetting and
# static checks then share what was compiled.
export GOFLAGS := -tags=nosqlite -trimpath

PROGRAMS := neuron-engine neuron-tracker neuron-localnet neuron-acceptance neuron-bench neuron-soak neuron-load neuron-families
# The window needs a C compiler and OpenGL's headers, which setup.sh looks for;
# everything else works without it.
PROGRAMS += neuron-tray $(if $(WINDOW),neuron)
BINARIES := $(PROGRAMS:%=bin/%)
PACKAGE_neuron := ./app
PACKAGE_neuron-tray := ./tray
# In a program that people get, Fyne does not check by which goroutine it is
# called; in tests it does, and says so.
BUILD_neuron := CGO_ENABLED=1
FLAGS_neuron := -tags nosqlite,migrated_fynedo
PACKAGE_neuron-engine := ./engine
PACKAGE_neuron-tracker := ./tracker-server
PACKAGE_neuron-localnet := ./internal/cmd/localnet
PACKAGE_neuron-acceptance := ./internal/cmd/acceptance
PACKAGE_neuron-soak := ./internal/cmd/soak
PACKAGE_neuron-load := ./internal/cmd/load
PACKAGE_neuron-bench := ./internal/cmd/bench
PACKAGE_neuron-families := ./internal/cmd/families

# What a program can be made of, embedded files included; app and tray are parts
# of their own programs alone.
sources = $(shell find $1 -type f ! -name '*_test.go' ! -name '*.md' ! -path '*/testdata/*' ! -path '*/node_modules/*' 2>/dev/null)
SOURCES = $(call sources,engine tracker-server llama internal assets)
SOURCES_neuron = $(call sources,app)
SOURCES_neuron-tray = $(call sources,tray)

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

.PHONY: setup
setup: ## Check the tools again and install what is missing
	@scripts/setup.sh $(BUILD)/setup.mk

$(BUILD)/setup.mk: scripts/setup.sh go.mod
	@scripts/setup.sh $@

.PHONY: run
run: native build ## Start a network of two nodes on this machine and keep it up
	@bin/neuron-localnet run

.PHONY: demo
demo: native build ## Start it, ask one question, print the answer and the figures, stop
	@bin/neuron-localnet demo

.PHONY: native
native: ## Fetch the pinned llama.cpp libraries
	@sh llama/native/install.sh

.PHONY: build
build: $(BINARIES) ## Build the programs into bin/

# Relinked when the version changes, which is when its file does.
.PHONY: force
$(BUILD)/version: force
	@mkdir -p $(BUILD); v=$$(scripts/version.sh); \
	[ "$$v" = "$$(cat $@ 2>/dev/null || true)" ] || printf '%s\n' "$$v" > $@

# What a release adds: the public keys that sign its list of releases, and where
# the list is (docs/protocol/updates.md). Without a key a build looks for none.
NEURON_RELEASE_KEYS ?=
NEURON_UPDATE_FEED ?=
export NEURON_RELEASE_KEYS NEURON_UPDATE_FEED
RELEASE_STAMP = $(if $(NEURON_RELEASE_KEYS), -X neuron/engine/update.stampedKeys=$(NEURON_RELEASE_KEYS) -X neuron/engine/update.stampedFeed=$(NEURON_UPDATE_FEED))
$(BUILD)/release: force
	@mkdir -p $(BUILD); [ "$(RELEASE_STAMP)" = "$$(cat $@ 2>/dev/null || true)" ] && [ -e $@ ] || printf '%s\n' "$(RELEASE_STAMP)" > $@

$(BINARIES): bin/%: go.mod go.sum $(BUILD)/version $(BUILD)/release $$(SOURCES) $$(SOURCES_$$*)
	@echo "build $@"
	@$(or $(BUILD_$*),CGO_ENABLED=0) $(GO) build $(FLAGS_$*) -buildvcs=false \
		-ldflags "-s -w -X neuron/internal/version.stamp=$$(cat $(BUILD)/version)$(RELEASE_STAMP)" -o $@ $(PACKAGE_$*)
	@touch $@

# The window's main package has no tests of its own: app/e2e drives the program
# that is built here. With the race detector it would compile OpenGL twice.
.PHONY: test
test: native build ## Vet and test everything, with the race detector
	@scripts/setup.sh need gcc
	@scripts/setup.sh window || echo "SKIPPED: the window is neither vetted nor tried"
	$(GO) vet $$($(GO) list -e ./... $(if $(WINDOW),,| grep -v '^neuron/app$$'))
	CGO_ENABLED=1 $(GO) test -race -p 2 -timeout 15m $(TESTFLAGS) $$($(GO) list ./... | grep -v '^neuron/app$$')

.PHONY: acceptance
acceptance: native build ## Run the acceptance criteria, one line each
	@scripts/setup.sh need strace
	@scripts/setup.sh need python3
	@scripts/setup.sh install python3-torch libopenblas0-pthread || echo "SKIPPED: AC-05 needs PyTorch"
	@bin/neuron-acceptance

.PHONY: soak
soak: native build ## Random requests and blows for SOAK (5m; 30s for a quick look)
	@bin/neuron-soak -for $(SOAK)

.PHONY: load
load: build ## Put 5,000 nodes, route requests and receipts on a tracker (3 minutes)
	@bin/neuron-load $(LOADFLAGS)

.PHONY: families
families: native bin/neuron-families ## Cut every family at every layer, into docs/models/families.md (15 minutes)
	@bin/neuron-families $(FAMILYFLAGS)

.PHONY: families-vulkan
families-vulkan: native bin/neuron-families ## The same for some families on Vulkan, also in software
	@sh llama/native/install.sh linux-x64-vulkan
	@bin/neuron-families -vulkan -jobs 2 -limit 20m $(FAMILYFLAGS)

.PHONY: cross
cross: ## Build for every platform, vet for Windows and macOS (CROSS=quick: two of them)
	@GO=$(GO) scripts/cross.sh $(CROSS)

.PHONY: wine
wine: native build ## Try the Windows programs under Wine, where it is installed
	@GO=$(GO) scripts/wine.sh

# Everything that can be packaged on this machine, see scripts/package.sh.
.PHONY: package
package: native build $(BUILD)/tools/nfpm ## Make installers and packages into dist/ (FORMATS="deb run" for some)
	@scripts/setup.sh install makeself || echo "NOT BUILT: the .run (makeself is missing)"
	@GO=$(GO) FORMATS="$(FORMATS)" scripts/package.sh

.PHONY: package-test
package-test: ## Install, run, upgrade and remove what is in dist/ (PACKAGES="deb run" for some)
	@test -e dist/SHA256SUMS || { echo "dist/ is empty: make package"; exit 1; }
	@GO=$(GO) scripts/package-test.sh $(PACKAGES)

.PHONY: licences
licences: native build ## Collect the licences and parts of all programs into build/package/licences
	@GO=$(GO) SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 0) scripts/licences.sh

.PHONY: reproducible
reproducible: build ## Build the programs without cgo once more elsewhere and compare the bytes
	@GO=$(GO) scripts/reproducible.sh

.PHONY: lint
lint: $(BUILD)/tools/golangci-lint $(BUILD)/tools/govulncheck ## Run the static checks
	@GO=$(GO) scripts/lint.sh

$(BUILD)/tools/golangci-lint: PACKAGE := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(BUILD)/tools/govulncheck: PACKAGE := golang.org/x/vuln/cmd/govulncheck
# In a module of its own: its requirements would lift those of the checks.
$(BUILD)/tools/nfpm: tools/nfpm/go.mod tools/nfpm/go.sum
	@echo "build $@ (once)"
	@mkdir -p $(@D)
	@cd tools/nfpm && $(GO) build -o ../../$@ github.com/goreleaser/nfpm/v2/cmd/nfpm
	@touch $@
$(BUILD)/tools/%: tools/go.mod tools/go.sum
	@echo "build $@ (once, this takes a few minutes)"
	@mkdir -p $(@D)
	@cd tools && $(GO) build -o ../$@ $(PACKAGE)
	@touch $@

.PHONY: fmt
fmt: ## Format the Go files
	@find . \( -name .git -o -name build -o -name node_modules \) -prune -o -name '*.go' -print0 | xargs -0 -r gofmt -w

.PHONY: bench
bench: native build ## Measure routes against libllama alone, into docs/performance.md
	@bin/neuron-bench $(BENCHFLAGS)

.PHONY: gobench
gobench: native ## Run the Go benchmarks (BENCHTIME=1x for a quick look)
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -p 1 -timeout 30m ./...

.PHONY: fuzz
fuzz: native ## Run every fuzz target for FUZZTIME (10s)
	@GO=$(GO) scripts/fuzz.sh $(FUZZTIME)

.PHONY: cover
cover: native ## Test coverage, in total and as build/cover.html
	CGO_ENABLED=0 $(GO) test -p 2 -timeout 15m -coverpkg ./... -coverprofile $(BUILD)/cover.out ./...
	@$(GO) tool cover -html $(BUILD)/cover.out -o $(BUILD)/cover.html
	@$(GO) tool cover -func $(BUILD)/cover.out | tail -n 1

.PHONY: clean
clean: ## Remove what was built (native libraries and tools too)
	rm -rf bin dist $(BUILD)
