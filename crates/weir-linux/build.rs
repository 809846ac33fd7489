// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles `bpf/` (the scheduler, and the probes that count, sample, list tasks and add up CPU time), which
//! the library carries inside itself.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    println!("cargo:rerun-if-changed={}", bpf.display());
    println!("cargo:rerun-if-env-changed=CLANG");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    for program in [
        "sched/main",
        "probes/task_counts",
        "probes/samples",
        "probes/task_iter",
        "probes/cgroup_cpu",
    ] {
        if let Err(why) = compile(&bpf, program, &out) {
            eprintln!("bpf/{program}.bpf.c cannot be compiled: {why}");
            std::process::exit(1);
        }
    }
}

fn compile(bpf: &Path, program: &str, out: &Path) -> Result<(), String> {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let mut command = Command::new(&clang);
    command.args([
        "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-c",
    ]);
    command
        .arg(bpf.join(format!("{program}.bpf.c")))
        .arg("-I")
        .arg(bpf.join("include"));
    let libbpf = std::env::var_os("DEP_BPF_INCLUDE").ok_or("libbpf-sys names no headers")?;
    command.arg("-I").arg(libbpf);
    // The BPF target has no headers of its own; the kernel's are where the machine's are.
    for dir in system_headers(&clang)? {
        command.arg("-idirafter").arg(dir);
    }
    let name = program.rsplit('/').next().unwrap_or(program);
    let done = command
        .arg("-o")
        .arg(out.join(format!("{name}.bpf.o")))
        .output();
    let done = done.map_err(|e| format!("{clang}: {e}"))?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned());
    }
    Ok(())
}

/// Directories in which clang searches headers of this machine.
fn system_headers(clang: &str) -> Result<Vec<String>, String> {
    let output = Command::new(clang)
        .args(["-E", "-Wp,-v", "-xc", "/dev/null"])
        .output();
    let next_move = "install clang (make tools does), or name one in the variable CLANG";
    let output = output.map_err(|e| format!("{clang}: {e}: {next_move}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let listed = text.lines().skip_while(|l| !l.starts_with("#include <"));
    let dirs = listed
        .filter(|l| l.starts_with(' '))
        .map(|l| l.trim().to_owned());
    Ok(dirs.collect())
}
