# `make help` lists the targets; CONTRIBUTING.md says when to use which.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS   += --no-builtin-rules

GO      ?= go
# Python 3.12 or newer for interop, bench, plots, golden and kernels; where
# it is not given, .ci/find-python looks for one.
PYTHON  ?=

GOLANGCI_LINT := v2.14.0
LINT          := .tools/bin/golangci-lint
VENV          := .venv/.installed
NODE_MODULES  := interop/node_modules/.installed
STORE_SERVERS := interop/stores/node_modules/.installed
CUDA          := .tools/cuda/.installed
KERNELS       := internal/kernels

# cuda.h, to check the build with gorgonia.org/cu against both versions of it.
GORGONIA_HEADERS := .tools/cuda12 .tools/cuda13

# The default build needs neither cgo nor a CUDA toolkit.
export CGO_ENABLED ?= 0

# ---- For everyone

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^# ---- /{sub("# ---- ",""); print "\n" $$0} /^[a-z0-9-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: bin/arrow2zarr bin/quiver-share ## Build the commands into bin

.PHONY: bin/arrow2zarr bin/quiver-share
bin/arrow2zarr bin/quiver-share:
	$(GO) build -o $@ ./cmd/$(@F)

.PHONY: demo
demo: build ## Convert testdata/flights.parquet and show what came out
	@mkdir -p demo
	bin/arrow2zarr convert testdata/flights.parquet demo/flights.zarr --overwrite
	@echo
	bin/arrow2zarr inspect demo/flights.zarr

# ---- Before you send a change

.PHONY: test
test: ## Run all Go tests: no cgo, no GPU and no Python needed
	CGO_ENABLED=0 $(GO) test $(TEST_FLAGS) ./... $(TEST_ARGS)

.PHONY: test-short
test-short: ## Run the quick tests, in less than a minute
	CGO_ENABLED=0 $(GO) test -short ./...

# Packages without goroutines of their own, and programs around others. For packages that
# link clients of object stores, the detector would compile the clients again.
NO_RACE := arrowbuf/internal/integers bench/.* cmd/arrow2zarr cudabuf/internal/pool/trace docs examples/.* interop/.* \
	internal/apitest ndview/internal/(bitmap|half|layout|tick) zarr/codec/zfpy zarr/internal/.* zarr/store/blobstore/.*
empty :=

.PHONY: race
race: ## Run the quick tests under the race detector (needs gcc)
	CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 $(GO) test -race -short -p 3 -timeout 20m \
		$$($(GO) list ./... | grep -vE '/quiver/($(subst $(empty) ,|,$(strip $(NO_RACE))))$$')

# Where CI is set, tests do not skip the servers of object stores. Each benchmark runs once
# after the tests of its package, because linking the tests again takes longer: go test -bench
# would run one package at a time. Three packages run at once, as some wait for timeouts.
ifdef CI
test race: $(STORE_SERVERS)
TEST_FLAGS := -p 3 -timeout 20m
TEST_ARGS := -args -test.bench=. -test.benchtime=1x
endif

# purego makes even programs without cgo load the C library, which QEMU needs for arm64.
# The subprocesses of TestHostAccessOfArrowGo cannot start under QEMU.
.PHONY: test-arm64
test-arm64: ## Run the quick tests of arithmetic and formats for arm64 (needs Debian's qemu-user and libc6-arm64-cross)
	@command -v qemu-aarch64 >/dev/null && [ -d /usr/aarch64-linux-gnu ] || \
		{ echo "qemu-aarch64 or the C library for arm64 is missing: apt-get install qemu-user libc6-arm64-cross"; exit 1; }
	GOARCH=arm64 CGO_ENABLED=0 QEMU_LD_PREFIX=/usr/aarch64-linux-gnu $(GO) test -short -exec qemu-aarch64 -skip TestHostAccessOfArrowGo \
		./ndview/internal/... ./ndview/dtype ./arrowbuf ./zarr ./zarr/codec ./zarr/element

.PHONY: emulate
emulate: ## Run the kernels that copy and decode on the CPU, under AddressSanitizer (needs g++)
	@mkdir -p .tools/bin
	$(KERNELS)/emulate/build.sh .tools/bin
	QUIVER_EMULATE=$(CURDIR)/.tools/bin $(GO) test -tags emulate -count 1 -timeout 30m -v -run '^TestKernels' ./ndview/internal/stridedcopy ./ndview/blas ./compress/...

# Another tag or architecture compiles everything again, so each is vetted only where
# files have it.
.PHONY: lint
lint: kernels-check $(GORGONIA_HEADERS:%=%/.installed) ## Check format, words, vet, linters, the layers and the kernel images
	.ci/check-words
	@bad=$$(find . -name '.?*' -prune -o -name '*.go' -print | xargs gofmt -l); \
	if [ -n "$$bad" ]; then echo "gofmt would change:"; echo "$$bad"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags noasm ./ndview/internal/...
	$(GO) vet -tags emulate ./ndview/internal/stridedcopy ./ndview/blas ./compress/...
	GOARCH=arm64 $(GO) vet ./compress/gzip ./compress/lz4 ./compress/shuffle ./cudabuf/internal/libcuda
	@for headers in $(GORGONIA_HEADERS); do \
		include=$$(cat $$headers/.installed); echo "go vet -tags gorgonia with $${include##*/python*/site-packages/}"; \
		CGO_ENABLED=1 CGO_CFLAGS="-I$(CURDIR)/cudabuf/internal/gorgonia/include -I$$include" $(GO) vet -tags gorgonia ./cudabuf/... || exit 1; \
	done
	@if ! $(LINT) version 2>/dev/null | grep -qw '$(GOLANGCI_LINT:v%=%)'; then \
		echo "installing golangci-lint $(GOLANGCI_LINT)"; \
		GOBIN=$(CURDIR)/.tools/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT); \
	fi
	$(LINT) run ./...

.PHONY: check-windows
check-windows: ## Build the packages that Windows has; .ci/run leaves it out, since it compiles everything again
	GOOS=windows CGO_ENABLED=0 $(GO) build ./internal/... ./arrowbuf/... ./cudabuf/... ./ndview/... ./compress/... ./zarr ./zarr/codec/... ./zarr/store ./ipc/... ./arrowzarr

.PHONY: check-modules
check-modules: ## Check that a module of a user tidies and builds with Quiver
	GO=$(GO) .ci/check-modules

# Programs that do not depend on each other: make --jobs runs several at once.
INTEROP := interop-check interop-tables interop-compression interop-zarrmatrix interop-zarrrandom interop-zarrops \
	interop-zarrtolerance interop-zarrcast interop-blosc interop-cdevice interop-dissociated interop-share interop-flight
interop-tables: ARGUMENTS = --tables 100 --seed 1
interop-zarrrandom: ARGUMENTS = --arrays 250 --seed 1
interop-zarrops: ARGUMENTS = --sequences 20 --seed 1
interop-zarrcast: ARGUMENTS = --seed 1

# Where CI is set, make test has checked the stores.
.PHONY: interop
interop: $(INTEROP) interop-programs $(if $(CI),,stores) beam ## Check against NumPy, pyarrow, nanoarrow, zarr-python, tensorstore, zarrs, anndata, zarrita and Beam (needs gcc)

.PHONY: $(INTEROP)
$(INTEROP): interop-%: build $(VENV) $(NODE_MODULES)
	GO=$(GO) .venv/bin/python interop/$*.py $(ARGUMENTS)

.PHONY: interop-programs
interop-programs: $(VENV)
	GO=$(GO) .venv/bin/python ndview/testdata/golden/programs.py --check --seed 2

.PHONY: stores
stores: $(STORE_SERVERS) ## Check stores against servers of S3, Google Cloud Storage and Azure (needs Node)
	CI=true $(GO) test -count 1 -run Servers ./zarr/store/blobstore ./cmd/arrow2zarr

.PHONY: beam
beam: ## Vet and test the module for Apache Beam, on its runner Prism
	cd beam && $(GO) vet ./... && $(GO) test ./...

.PHONY: beam-flink
beam-flink: bin/arrow2zarr $(VENV) ## Convert on a Flink cluster here, kill a part of it, and record the result (needs Java and Maven)
	GO=$(GO) .venv/bin/python beam/flink/run.py

.PHONY: programs
programs: bin/arrow2zarr $(VENV) ## Check random programs of arrays and random tables, others each time
	GO=$(GO) .venv/bin/python ndview/testdata/golden/programs.py --check --programs 20000
	.venv/bin/python interop/tables.py --tables 1000
	GO=$(GO) .venv/bin/python interop/zarrrandom.py --arrays 5000
	GO=$(GO) .venv/bin/python interop/zarrops.py --sequences 500
	GO=$(GO) .venv/bin/python interop/zarrcast.py --arrays 5000

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (10s)
	GO=$(GO) .ci/fuzz $(or $(FUZZTIME),10s)

# ---- Speed

.PHONY: bench-once
bench-once: ## Run every Go benchmark once, to see that it works
	CGO_ENABLED=0 $(GO) test -run '^$$' -bench . -benchtime 1x ./...

.PHONY: bench
bench: build $(VENV) ## Measure arrow2zarr against its peers here, and record it in bench/results
	.venv/bin/python bench/convert.py

.PHONY: bench-arrays
bench-arrays: $(VENV) ## Measure arrays on the CPU beside NumPy, and record it in bench/results
	.venv/bin/python bench/arrays_cpu.py

.PHONY: bench-assembly
bench-assembly: ## Measure each routine in assembly beside its Go loop, and record it in bench/results
	$(or $(PYTHON),$(shell PYTHON= .ci/find-python)) bench/assembly_cpu.py

.PHONY: bench-arrow
bench-arrow: $(VENV) ## Measure Arrow batches on the CPU device beside arrow-go, and record it in bench/results
	.venv/bin/python bench/arrow_cpu.py

.PHONY: bench-zarr-remote
bench-zarr-remote: $(VENV) ## Measure Zarr arrays in an object store beside zarr-python and tensorstore, and record it in bench/results
	.venv/bin/python bench/zarr_remote.py

.PHONY: bench-zarr
bench-zarr: $(VENV) ## Measure Zarr arrays beside zarr-python, zarrs-python and tensorstore, and record it in bench/results
	.venv/bin/python bench/zarr_cpu.py

.PHONY: bench-tables
bench-tables: bin/arrow2zarr $(VENV) ## Measure nested columns, text, dictionaries and restore beside their peers, and record it
	.venv/bin/python bench/tables_cpu.py

.PHONY: bench-parquet
bench-parquet: $(VENV) ## Measure how Parquet files are read beside pyarrow, and record it in bench/results
	CGO_ENABLED=0 $(GO) test -c -o bin/arrowzarr.test ./arrowzarr
	.venv/bin/python bench/parquet_cpu.py bin/arrowzarr.test

.PHONY: bench-memory
bench-memory: bin/arrow2zarr $(VENV) ## Measure the memory that inputs of 10 GiB take, and record it in bench/results
	.venv/bin/python bench/memory.py

.PHONY: bench-scale
bench-scale: bin/arrow2zarr $(VENV) ## Measure plan, finalize and a slow object store, and record it in bench/results
	.venv/bin/python bench/scale_cpu.py

.PHONY: bench-table
bench-table: ## Print the newest recorded result of each topic
	@$(GO) run ./bench/table bench/results

.PHONY: plots
plots: $(VENV) ## Draw bench/plots from the recorded results
	.venv/bin/python bench/plots.py

# ---- GPU

.PHONY: kernels
kernels: $(CUDA) ## Compile internal/kernels/*/*.cu to the committed images
	.tools/cuda/bin/python $(KERNELS)/make.py

.PHONY: kernels-check
kernels-check: ## Check that the committed images were made from the current sources
	@cd $(KERNELS) && { sha256sum --check --quiet images/SHA256SUMS && \
	diff <(cut -c67- images/SHA256SUMS | LC_ALL=C sort) <(ls make.py requirements.txt */*.cu */*.cuh images/*/*.zip 2>/dev/null | LC_ALL=C sort); } || \
	{ echo "The kernel images do not match their sources: run 'make kernels' and commit the result."; exit 1; }

.PHONY: gpu-bundle
gpu-bundle: .tools/cuda13/.installed ## Put tests and benchmarks into .gpu, for a GPU machine without Go (needs gcc)
	GO=$(GO) bench/gpu/bundle.sh $(PARTS)

# ---- Upkeep

.PHONY: golden
golden: $(VENV) ## Write all golden files and tables again; git stays clean
	GO=$(GO) .ci/golden .venv/bin/python

.PHONY: release
release: ## Build the commands for VERSION into dist, with checksums
	GO=$(GO) .ci/release $(or $(VERSION),$(error make release VERSION=v0.1.0))

.PHONY: clean
clean: ## Remove what was built (not .venv and .tools)
	rm -rf bin demo .gpu dist

# ---- Tools, installed when first needed

$(VENV): requirements.txt
	python=$$(PYTHON='$(PYTHON)' .ci/find-python); "$$python" -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-virtualenv -r requirements.txt
	@touch $@

$(CUDA): $(KERNELS)/requirements.txt
	python=$$(PYTHON='$(PYTHON)' .ci/find-python); "$$python" -m venv .tools/cuda
	.tools/cuda/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# .installed holds the folder of cuda.h, for CGO_CFLAGS.
.tools/cuda1%/.installed: cudabuf/internal/gorgonia/cuda1%.txt
	python=$$(PYTHON='$(PYTHON)' .ci/find-python); "$$python" -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@dirname "$$(find $(CURDIR)/$(@D) -name cuda.h)" >$@

$(STORE_SERVERS): interop/stores/install interop/stores/package-lock.json
	GO=$(GO) interop/stores/install
	@touch $@

$(NODE_MODULES): interop/package-lock.json
	cd interop && npm ci --no-audit --no-fund
	@touch $@
