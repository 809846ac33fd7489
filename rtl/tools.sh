# SPDX-License-Identifier: Apache-2.0 OR MIT
# Shell functions that build things from the RTL. Sourced in the folder rtl.

cache="${XDG_CACHE_HOME:-$HOME/.cache}/weir/rtl"
mkdir -p "$cache" target

# Verilator's own sources are compiled for each simulation: most of its time. Once is enough.
if command -v ccache > /dev/null; then export OBJCACHE=ccache CCACHE_DIR="$cache/ccache"; fi

# Maven with everything it downloads in the cache, and without the network once the tests have run: the file
# `have` says so.
have="$cache/have-$(sha256sum pom.xml | cut -c1-16)"
maven() {
    local network=-U
    [ ! -e "$have" ] || network=-o
    XDG_CACHE_HOME="$cache" mvn -q -B $network -Dmaven.repo.local="$cache/m2" -Daether.connector.http.retryHandler.count=5 "$@"
}

# fetched COMMAND…: runs it up to three times until it succeeds, if it may need the network: a registry may
# refuse a file for a moment.
fetched() {
    local try
    for try in 1 2 3; do
        if "$@"; then return 0; fi
        [ ! -e "$have" ] && [ $try -lt 3 ] || return 1
        echo "rtl: '$*' failed, and not all packages are fetched yet: again in $((try * 10)) s" >&2
        sleep $((try * 10))
    done
}

# The class path that runs the generators.
class_path() {
    if [ -e target/classpath.txt ] && [ target/classpath.txt -nt pom.xml ]; then return; fi
    fetched maven dependency:build-classpath -Dmdep.outputFile=target/classpath.txt
}

# The generators, and the class path that runs them.
compile() {
    class_path || return 1
    if [ -e target/compiled ] && [ -z "$(find src pom.xml -newer target/compiled -print -quit)" ]; then return; fi
    fetched maven test-compile && touch target/compiled
}

# emit MAIN ARGUMENTS…: Verilog from a generator.
emit() {
    XDG_CACHE_HOME="$cache" java -cp "target/classes:target/test-classes:$(cat target/classpath.txt)" "weir.$1" "${@:2}"
}

# traffic_bench GROUPS CHANNELS GROUP_BYTES_LOG2: builds the bench if it is older than what it is made
# of, and prints its path.
traffic_bench() {
    local folder="target/traffic-$1-$2-$3"
    if [ ! -e "$folder/obj/traffic" ] ||
        [ -n "$(find src/main sim ../crates/weir-hw/src/access_counters/regmap.rs -newer "$folder/obj/traffic" -print -quit)" ]; then
        rm -rf "$folder"
        mkdir -p "$folder"
        (
            set -e
            emit Emit block-ram "$folder" "$1" "$2" group-bytes-log2="$3" device-bytes-log2=34
            sed -n 's/^pub const \([A-Z0-9_]*\): u[0-9]* = \(.*\);/#define \1 \2/p' \
                ../crates/weir-hw/src/access_counters/regmap.rs > "$folder/regs.h"
            verilator --cc --exe --build -O3 --noassert -Wno-fatal --top-module AccessCounters "$folder"/*.sv \
                "$PWD/sim/traffic.cpp" -CFLAGS "-O2 -DGROUPS=$1 -DCHANNELS=$2 -DGROUP_LOG2=$3 -I$PWD/$folder -I$PWD/sim" \
                -Mdir "$folder/obj" -o traffic
        ) > "$folder/build.log" 2>&1 || { tail -n 20 "$folder/build.log" >&2; return 1; }
    fi
    echo "$folder/obj/traffic"
}

# model_key GROUPS CHANNELS GROUP_BYTES_LOG2: names a library of the block by all that it is made of.
model_key() {
    local files
    mapfile -t files < <(find src/main sim/block.h sim/model.h sim/model.cpp pom.xml tools.sh -type f | LC_ALL=C sort)
    { echo "$@"; sha256sum "${files[@]}"; } | sha256sum | cut -c1-16
}

# model_library LIBRARY GROUPS CHANNELS GROUP_BYTES_LOG2: builds it.
model_library() {
    local folder
    folder=$(mktemp -d target/model-XXXXXX)
    mkdir -p "$(dirname "$1")"
    (
        set -e
        emit Emit block-ram "$folder" "$2" "$3" group-bytes-log2="$4" device-bytes-log2=34 fill-bits=8
        verilator --cc --exe --build -O3 --noassert -Wno-fatal --top-module AccessCounters "$folder"/*.sv \
            "$PWD/sim/model.cpp" -CFLAGS "-O2 -fPIC -DCHANNELS=$3 -I$PWD/sim" -LDFLAGS -shared \
            -Mdir "$folder/obj" -o model.so
    ) > "$folder/build.log" 2>&1 || { tail -n 20 "$folder/build.log" >&2; return 1; }
    mv "$folder/obj/model.so" "$1.$$" && mv "$1.$$" "$1"
    rm -rf "$folder"
}

# and_graph FOLDER GROUP_BITS COUNT_BITS: the claim of formal/equal.sv about the pair of banks in a
# folder, as an and-inverter graph FOLDER/equal.aig. Flip-flops without an initial value may begin as
# anything: `-zinit` gives each an input of its own.
and_graph() {
    yosys -q -l "$1/yosys.log" -p "
        read_verilog -sv -formal $1/*.sv formal/equal.sv
        chparam -set GROUP_BITS $2 -set COUNT_BITS $3 equal
        prep -top equal -flatten -nordff; memory_map; opt -full; async2sync; dffunmap; opt_clean
        setundef -undriven -anyseq; techmap; opt_clean; delete -output; dffunmap; simplemap
        abc -g AND -fast; opt_clean; write_aiger -zinit -I -B $1/equal.aig" > /dev/null
}

# claim_graph CLAIM FOLDER [PARAMETER VALUE [CUT]]: the claim of formal/CLAIM.sv about the modules in a folder, as a
# graph FOLDER/equal.aig. What the cut cells give may be anything.
claim_graph() {
    yosys -q -l "$2/yosys.log" -p "
        read_verilog -sv -formal $2/*.sv formal/$1.sv
        ${3:+chparam -set $3 $4 $1}
        ${5:+hierarchy -top $1; proc; cutpoint $5}
        prep -top $1 -flatten -nordff; memory_map; opt -full; async2sync; dffunmap; opt_clean
        setundef -undriven -anyseq; techmap; opt_clean; delete -output; dffunmap; simplemap
        abc -g AND -fast; opt_clean; write_aiger -zinit -I -B $2/equal.aig" > /dev/null
}

# Seconds after which a solver is ended. Many times what any claim takes, so that no verdict hangs on how fast the
# machine is: what is to be refuted has a bound in clocks.
patience=14400

# proved FOLDER: for all times.
proved() {
    yosys-abc -c "read_aiger $1/equal.aig; fold; strash; scorr; pdr -T $patience" > "$1/abc.log" 2>&1
    grep -q "^Property proved" "$1/abc.log"
}
# each_proved FOLDER: the same, each claim by itself, which need not make one with the others.
each_proved() {
    yosys-abc -c "read_aiger $1/equal.aig; fold; strash; scorr; pdr -a -T $patience" > "$1/abc.log" 2>&1
    grep -q "^Properties:.*Disproved = 0. Undecided = 0." "$1/abc.log"
}
# refuted FOLDER CLOCKS: by a run of at most that many clocks, which shows a difference.
refuted() {
    yosys-abc -c "read_aiger $1/equal.aig; fold; strash; bmc3 -F $2 -T $patience" > "$1/abc.log" 2>&1
    grep -q "was asserted in frame" "$1/abc.log"
}
# refuted_deep FOLDER CLOCKS: the same, where more than some 20 clocks are needed.
refuted_deep() {
    yosys-abc -c "read_aiger $1/equal.aig; fold; strash; scorr; pdr -F $2 -T $patience" > "$1/abc.log" 2>&1
    grep -q "was asserted in frame" "$1/abc.log"
}
# bounded FOLDER CLOCKS: no difference in that many clocks.
bounded() {
    yosys-abc -c "read_aiger $1/equal.aig; fold; strash; scorr; bmc3 -F $2 -T $patience" > "$1/abc.log" 2>&1
    grep -q "No output asserted in $2 frames" "$1/abc.log"
}

# unrolled FOLDER CLOCKS: no difference in that many clocks, as one function of all inputs. For arithmetic: equal words
# in the middle are found and merged, which `bounded` does not do.
unrolled() {
    timeout "$patience" yosys-abc -c "read_aiger $1/equal.aig; fold; strash; frames -i -F $2; strash; fraig; iprove" \
        > "$1/abc.log" 2>&1 || return 1
    grep -q "^UNSATISFIABLE" "$1/abc.log"
}

# engine_vectors ENGINE RUNS SEED [FILE]: what an engine's Rust twin gives; of the accelerator: requests. `make build-all`
# compiles them: by its package alone weir-type2 would be compiled once more, with other features of what it uses.
engine_vectors() {
    local example=engine_vectors
    case "$1" in
    lz4-*) example=lz4_vectors ;;
    accelerator) example=accelerator_vectors; shift ;;
    esac
    "../target/release/examples/$example" "$@"
}

# engine_bench ENGINE: builds the bench of an engine if it is older than what it is made of, and prints its path.
engine_bench() {
    local folder="target/engine-$1" top bench=engines flags=-O2 regs=../crates/weir-type2/src/engines/accelerator_regs.rs
    case "$1" in
    xxh64) top=Xxh64; flags+=" -DXXH64" ;;
    compare) top=PageCompare ;;
    lz4-decoder) top=Lz4Decoder; bench=lz4; flags+=" -DENGINE=0" ;;
    lz4-encoder-*) top=Lz4Encoder; bench=lz4; flags+=" -DENGINE=${1##*-}" ;;
    accelerator) top=FlawedAccelerator; bench=accelerator; flags+=" -std=c++17 -I$PWD/$folder -I$PWD/sim" ;;
    esac
    if [ ! -e "$folder/obj/engine" ] || [ -n "$(find src sim "$regs" -newer "$folder/obj/engine" -print -quit)" ]; then
        rm -rf "$folder"
        mkdir -p "$folder"
        (
            set -e
            if [ "$1" = accelerator ]; then
                emit EmitFlawedAccelerator "$folder"
                sed -n 's/^pub const \([A-Z0-9_]*\): u[0-9]* = \(.*\);/#define \1 \2/p' "$regs" > "$folder/regs.h"
            else emit EmitEngine "$1" "$folder"; fi
            verilator --cc --exe --build -O3 --noassert -Wno-fatal --x-initial unique --top-module "$top" \
                "$folder"/*.sv "$PWD/sim/$bench.cpp" -CFLAGS "$flags" -Mdir "$folder/obj" -o engine
        ) > "$folder/build.log" 2>&1 || { tail -n 20 "$folder/build.log" >&2; return 1; }
    fi
    echo "$folder/obj/engine"
}
