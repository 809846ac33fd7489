// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the scheduler's arithmetic for this machine.

use std::path::Path;

fn main() {
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    for file in ["host.c", "weir_sched.h"] {
        println!("cargo:rerun-if-changed={}", bpf.join(file).display());
    }
    cc::Build::new()
        .file(bpf.join("host.c"))
        .include(&bpf)
        .warnings(true)
        .compile("weir_sched_host");
}
