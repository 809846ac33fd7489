# SPDX-License-Identifier: Apache-2.0 OR MIT
# Two commands: `make run` (the live demonstration) and `make test` (everything that can be tested
# here). Both install what is missing. Heavy things are kept in ${XDG_CACHE_HOME:-~/.cache}/weir.

SHELL := /bin/bash
CARGO := cargo
# The compiler that weir is tested with, and that packages are made by where it is installed.
RUST := 1.95.0
# What cargo is asked for: each list is a part of the last but one, with the same features of each crate, so that
# nothing is built twice (xtask/tests/all/unit_graph.rs).
RUN_BUILD := build --release -p weir --features thesis,tls -p weir-device-model -p weir-testbed
BUILD := build --release --workspace
BUILD_ALL := build --release --workspace --all-targets
TEST := test --release --workspace --no-fail-fast
TESTBED := target/release/weir-testbed
# Makes what guests boot, with packages of 1.4 GB. It needs nothing that is compiled.
GUEST_PACKAGES := testbed/harness/guest-packages
SCENARIO := scenarios/live-fio-stress.toml

.PHONY: run test build-all unit-tests integration-tests doc-tests soak random mutants fuzz tools test-tools build sweep policies attribution bench rtl-test rtl-early rtl-late rtl-prove rtl-soak rtl-corpora rtl-resources rtl-tools page-bench packages packages-arm64 packages-arm64-test packages-test packages-reproduce packages-sign packages-sign-test kernel-check supply-chain kernel-style dkms-test image image-test chart-test fleet

# What `make run` says first, with minutes as measured on two cores.
MINUTES_FIRST := 8
MINUTES_THEN := 3
define PLAN
weir on a real Linux kernel: a virtual machine with an emulated CXL device.
  1. compile weir and the testbed; beside it, fetch kernel, QEMU and workloads
     as packages (1.4 GB, in ~/.cache/weir)
  2. the simulator shows what to expect
  3. five readers overload the device, a light reader suffers: without weir,
     with limits by cpu.max, with weir's own scheduler
About $(MINUTES_FIRST) minutes the first time on two cores, most of it compiling, $(MINUTES_THEN) after that.
Nothing on this machine is limited. The results are a page: out/live/index.html
endef
export PLAN

# weir-compile has no dependencies: it is there after seconds, and says how the first minutes go on.
run:
	@echo "$$PLAN"
	@$(MAKE) --no-print-directory tools
	@$(CARGO) build --quiet --release -p weir-progress
	@pace=$$(target/release/weir-compile $(GUEST_PACKAGES) $(CARGO) $(RUN_BUILD)) && \
	    printf '\nWhat to expect, simulated:\n' && target/release/weir sim thesis-limit && echo && \
	    $(TESTBED) live $(SCENARIO) --backend cpu-max,sched-ext-full --out out/live --pace "$$pace"

# Everything, in the order and with the account of .ci/stages.
test: tools test-tools rtl-tools
	.ci/stages

# The parts of `make test` that take minutes, each by itself.
build-all:
	$(CARGO) $(BUILD_ALL)

# The tests inside of crates, and those of programs, servers and guests.
unit-tests:
	$(CARGO) $(TEST) --lib --bins
integration-tests:
	WEIR_SERVER_TESTS=required $(CARGO) $(TEST) --test '*'
doc-tests:
	$(CARGO) $(TEST) --doc

# What the rules of the repository read of this file.
print-%:
	@echo $($*)

# What takes long: scenarios by chance, then in guests ten thousand tasks, a thousand resizes, every rule on other
# kernels, the live scenario in full. Each question to a guest writes what it found to docs/evidence/vm-NAME.md.
soak: build random
	$(CARGO) $(TEST) --test vm -- --ignored soak_

# The controller on scenarios that it has not met: other ones each day. Those with a check that does not hold are kept
# as small files (docs/evidence/random.md).
WEIR_CACHE := $${XDG_CACHE_HOME:-$$HOME/.cache}/weir
random: build
	now=$$(date -u +%Y%m%d-%H%M%S) && target/release/weir-lab random --from "$${now%-*}001" --scenarios 300 \
	    --backend cpu-max,sched-ext-full --sensor task-counts,sampling,cpu-time --failing \
	    --keep "$(WEIR_CACHE)/random/$$now"

# Which broken lines of the controller no test notices (docs/evidence/mutants.md): hours for all of it. MUTANTS says
# which: files and functions, as cargo-mutants takes them. Lines are broken in a copy of the sources.
MUTANTS := -f 'crates/weir-core/src/controller/**'
# Tests that run no step of the controller, or for long.
NO_STEP := rates:: policy:: knee:: window:: seam:: units:: conformance:: owner bad_days no_sequence_of goals::
mutants: tools
	$(CARGO) install --quiet --locked --root "$(WEIR_CACHE)/cargo-mutants" --version 27.1.0 cargo-mutants
	WEIR_LINT=no CARGO_INCREMENTAL=1 CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
	    CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true CARGO_TARGET_DIR=$(CURDIR)/target/mutants \
	    "$(WEIR_CACHE)/cargo-mutants/bin/cargo-mutants" mutants --profile release -p weir-core $(MUTANTS) \
	    --cap-lints true --timeout 120 -o target/mutants -C=--lib -C=--test=all -- -- $(addprefix --skip ,$(NO_STEP))

# Bytes by chance for all that reads bytes of others (docs/evidence/fuzz.md): an hour for each target, as many at a time as there are CPUs.
# FUZZ_TARGETS names some of them, FUZZ_JOBS says how many run at a time.
FUZZ_SECS ?= 3600
fuzz: tools
	$(call install,g++:g++ python3:python3)
	FUZZ_SECS=$(FUZZ_SECS) xtask/fuzz $(FUZZ_TARGETS)

# The access counters and the accelerator as hardware: unit tests, traffic at the pins of the whole block, proofs;
# then the engines beside their twins in Rust, which are examples of weir-type2.
rtl-test: rtl-tools build-all rtl-early rtl-late
rtl-early:
	rtl/run-checks scala traffic proofs
rtl-late:
	rtl/run-checks engines

# Proofs of larger banks.
rtl-prove: rtl-tools
	rtl/run-checks prove

# 10^8 accesses each for 4096 and for 16 384 groups.
rtl-soak: rtl-tools
	rtl/run-checks soak

# 10^5 pages of each program's memory through the engines, their twins, liblz4 and the guest's kernel: an hour and
# more. WEIR_CORPUS: a folder with files of pages instead; WEIR_CORPUS_PAGES: fewer of each.
rtl-corpora: build rtl-tools
	$(call install,redis-server:redis-server)
	rtl/run-checks corpora
	WEIR_CORPUS="$${WEIR_CORPUS:-$(CURDIR)/rtl/target/corpora}" WEIR_VM_TESTS=required \
	    $(CARGO) test --release -p weir-testbed --test vm -- --ignored --nocapture corpora

# The table in docs/evidence/rtl.md. Registers at 512 groups alone take many minutes.
rtl-resources: rtl-tools
	rtl/report-resources

# The emulated device alone: 1 to 8 readers, twice.
sweep: build
	$(TESTBED) sweep $(SCENARIO) --repeat 2 --out out/sweep

# Both policies, one after the other.
policies: build
	$(TESTBED) live $(SCENARIO) --policy max-min,drf --out out/policies

# weir's figure for each workload against the device's ground truth, by each source of shares.
attribution: build
	$(TESTBED) attribution scenarios/attribution-*.toml --out out/attribution

# What one iteration of the loop costs, and a day's recording, as packages are compiled.
bench: tools
	$(CARGO) build --profile dist -p weir-lab
	for n in 10 100 1000 10000; do target/dist/weir-lab bench loop --workloads $$n; done
	target/dist/weir-lab bench record thesis-idle --hours 24 --observe

# What the live page costs weir and the browser, for 1000 workloads and an hour: docs/evidence/page.md.
page-bench: build test-tools
	$(CARGO) bench -p weir --bench overhead -- "files, every 100ms, page"
	crates/weir/tests/page/measure

# What 200 simulated hosts cost a Prometheus and a VictoriaMetrics: a quarter of an hour, docs/evidence/fleet.md.
fleet: build test-tools
	packaging/monitoring/measure-fleet.py

# A .deb and a .rpm of weir for this machine's architecture, in target/packages.
packages: tools
	$(call install,$(PACKAGE_PROGRAMS))
	packaging/build

# The same for ARM, built across, in target/packages-arm64.
packages-arm64: tools
	$(call install,$(PACKAGE_PROGRAMS) $(PACKAGE_ARM64_PROGRAMS))
	rustup target add aarch64-unknown-linux-gnu
	ARCH=arm64 packaging/build

# Installed and run in a Debian of that architecture, by qemu.
packages-arm64-test: packages-arm64
	$(call install,$(PACKAGE_TEST_PROGRAMS) cpio:cpio)
	packaging/test-foreign arm64

# Installed, upgraded and removed in fresh Debian 12 and 13.
packages-test: packages
	$(call install,$(PACKAGE_TEST_PROGRAMS))
	packaging/test

# The driver, built by DKMS for a kernel of Debian's.
dkms-test: packages
	$(call install,lintian:lintian mmdebstrap:mmdebstrap unshare:util-linux)
	packaging/dkms/test

# The image localhost/weir, of the package.
image: packages
	$(call install,buildah:buildah)
	packaging/image

# The same without a registry of images, and what it can do.
image-test: packages
	$(call install,buildah:buildah mmdebstrap:mmdebstrap)
	packaging/image --test

# The Helm chart, by helm and by the schemas of Kubernetes. helm is built the first time: some minutes.
chart-test:
	$(call install,go:golang-go python3:python3 )
	packaging/chart-test

# Built twice, in two folders: the same bytes.
packages-reproduce: packages
	packaging/reproduce

# Signed by a key that gpg has, with an apt repository of them: make packages-sign KEY=FINGERPRINT
packages-sign: packages
	$(call install,$(SIGN_PROGRAMS))
	packaging/sign target/packages "$(KEY)"

# The same with a throw-away key and packages of nothing.
packages-sign-test:
	$(call install,$(SIGN_PROGRAMS))
	packaging/sign --test

# The driver on kernels that look for faults, built of Debian's source: some twenty CPU minutes each the first time.
kernel-check: tools
	$(call install,$(KERNEL_PROGRAMS))
	kernel/check kasan
	kernel/check kcsan

# What weir is made of, and the driver by the kernel's own style checker. Parts of `make test`.
supply-chain: tools
	.ci/supply-chain
kernel-style: tools
	kernel/check-style

build: tools
	$(CARGO) $(BUILD)

# program:package. A path is a header or another file of a package without programs.
APT_PROGRAMS := mmdebstrap:mmdebstrap cpio:cpio xz:xz-utils cc:gcc unshare:util-linux clang:clang \
    /usr/include/libelf.h:libelf-dev /usr/include/zlib.h:zlib1g-dev
# Check what weir writes: the reference parser of OpenMetrics; shells and man, completions and pages of packages. Chromium
# looks at the live page.
TEST_PROGRAMS := python3:python3 /usr/lib/python3/dist-packages/prometheus_client/parser.py:python3-prometheus-client \
    man:man-db zsh:zsh fish:fish chromium:chromium node:nodejs npm:npm \
    /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf:fonts-dejavu-core
# dpkg-shlibdeps finds what the program needs at run time.
PACKAGE_PROGRAMS := dpkg-shlibdeps:dpkg-dev git:git python3:python3
PACKAGE_ARM64_PROGRAMS := aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu /usr/aarch64-linux-gnu/include/stdio.h:libc6-dev-arm64-cross \
    qemu-aarch64-static:qemu-user-static arch-test:arch-test mmdebstrap:mmdebstrap
PACKAGE_TEST_PROGRAMS := lintian:lintian rpm:rpm mmdebstrap:mmdebstrap unshare:util-linux strings:binutils \
    systemd-nspawn:systemd-container python3:python3
KERNEL_PROGRAMS := flex:flex bison:bison bc:bc make:make /usr/include/libelf.h:libelf-dev
SIGN_PROGRAMS := gpg:gnupg apt-ftparchive:apt-utils rpmsign:rpm rpmbuild:rpm
RTL_PROGRAMS := mvn:maven java:default-jdk-headless verilator:verilator yosys:yosys g++:g++ python3:python3 \
    ccache:ccache

# Installs the packages of what is not there.
define install
	@missing=(); for pair in $(1); do \
	    [ -e "$${pair%%:*}" ] || command -v "$${pair%%:*}" > /dev/null || missing+=("$${pair##*:}"); done; \
	if [ $${#missing[@]} -gt 0 ]; then \
	    echo "installing $${missing[*]}"; \
	    [ "$$(id -u)" = 0 ] || { echo "not root: run 'sudo apt-get install $${missing[*]}'"; exit 1; }; \
	    apt-get update -qq && apt-get install -y -qq -o Acquire::Retries=3 --no-install-recommends "$${missing[@]}" > /dev/null; fi
endef

test-tools:
	$(call install,$(TEST_PROGRAMS))
	crates/weir/tests/servers.sh
	crates/weir/tests/page/install.sh

rtl-tools:
	$(call install,$(RTL_PROGRAMS))

tools:
	$(call install,$(APT_PROGRAMS))
	@command -v $(CARGO) > /dev/null || { \
	    { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq rustup > /dev/null && \
	      { rustup default $(RUST) || rustup default stable; }; } \
	    || { echo "no cargo here, and no package rustup: install Rust 1.88 or newer, then try again"; exit 1; }; }
