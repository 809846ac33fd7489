# SPDX-License-Identifier: Apache-2.0 OR MIT
# Two commands: `make run` (the live demonstration) and `make test` (everything that can be tested
# here). Both install what is missing. Heavy things are kept in ${XDG_CACHE_HOME:-~/.cache}/weir.

SHELL := /bin/bash
CARGO := cargo
PROGRAMS := -p weir -p weir-plugin -p weir-testbed
TESTBED := target/release/weir-testbed
SCENARIO := scenarios/live-fio-stress.toml

.PHONY: run test tools build plant policies estimates bench

run: build
	$(TESTBED) live $(SCENARIO) --out out/live

test: tools
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings
	$(CARGO) build --release $(PROGRAMS)
	$(TESTBED) env
	$(CARGO) test --profile tests --no-fail-fast --workspace --exclude weir-testbed
	$(CARGO) test --release --no-fail-fast -p weir-testbed -- --test-threads=1

# The emulated device alone: 1 to 8 readers, twice.
plant: build
	$(TESTBED) plant $(SCENARIO) --repeat 2 --out out/plant

# All three policies, one after the other.
policies: build
	$(TESTBED) live $(SCENARIO) --policy max-min,proportional,balance-point --out out/policies

# weir's figure for each workload against the device's own books.
estimates: build
	$(TESTBED) live scenarios/estimates.toml --policy observe --out out/estimates

# What one iteration of the loop costs.
bench: tools
	$(CARGO) build --release -p weir
	for n in 10 100 1000 10000; do target/release/weir bench loop --workloads $$n; done

build: tools
	$(CARGO) build --release $(PROGRAMS)

APT_PROGRAMS := mmdebstrap:mmdebstrap cpio:cpio cc:gcc unshare:util-linux

tools:
	@missing=(); for pair in $(APT_PROGRAMS); do \
	    command -v "$${pair%%:*}" > /dev/null || missing+=("$${pair##*:}"); done; \
	if [ $${#missing[@]} -gt 0 ]; then \
	    echo "installing $${missing[*]}"; \
	    [ "$$(id -u)" = 0 ] || { echo "not root: run 'sudo apt-get install $${missing[*]}'"; exit 1; }; \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends "$${missing[@]}" > /dev/null; fi
	@command -v $(CARGO) > /dev/null || { \
	    { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq rustup > /dev/null && rustup default stable; } \
	    || { echo "no cargo here, and no package rustup: install Rust 1.88 or newer, then try again"; exit 1; }; }
