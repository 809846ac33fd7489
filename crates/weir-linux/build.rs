// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles `bpf/` (the scheduler, and the probes that count, sample, list tasks and add up CPU time), and
//! makes Rust of it: of each program a skeleton with its structs, and the numbers of the headers that it
//! includes (`src/kernel/skeletons.rs`).

use libbpf_cargo::SkeletonBuilder;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name and source of each program.
const PROGRAMS: [(&str, &str); 6] = [
    ("sched", "sched/main.bpf.c"),
    ("task_counts", "probes/task_counts.bpf.c"),
    ("set_counts", "probes/set_counts.bpf.c"),
    ("samples", "probes/samples.bpf.c"),
    ("task_iter", "probes/task_iter.bpf.c"),
    ("cgroup_cpu", "probes/cgroup_cpu.bpf.c"),
];

fn main() {
    // Relative to the package, where cargo runs this: the same in a checkout that was moved.
    let bpf = Path::new("../../bpf");
    println!("cargo:rerun-if-changed={}", bpf.display());
    println!("cargo:rerun-if-env-changed=CLANG");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    for (name, source) in PROGRAMS {
        let object = out.join(format!("{name}.bpf.o"));
        let done = compile(bpf, source, &object).and_then(|()| {
            let rust = [skeleton(&object)?, constants(bpf, source)?].concat();
            std::fs::write(out.join(format!("{name}.rs")), rust).map_err(|e| e.to_string())
        });
        if let Err(why) = done {
            eprintln!("bpf/{source} cannot be built: {why}");
            std::process::exit(1);
        }
    }
}

fn compile(bpf: &Path, source: &str, object: &Path) -> Result<(), String> {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let mut command = Command::new(&clang);
    command.args([
        "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-c",
    ]);
    command
        .arg(bpf.join(source))
        .arg("-I")
        .arg(bpf.join("include"));
    // Paths get into the object, and so into the program: the same ones, wherever the checkout lies.
    let root = std::fs::canonicalize("../..").map_err(|e| format!("../..: {e}"))?;
    command.arg(format!(
        "-ffile-prefix-map={}=/usr/src/weir",
        root.display()
    ));
    let libbpf = std::env::var_os("DEP_BPF_INCLUDE").ok_or("libbpf-sys names no headers")?;
    command.arg("-I").arg(libbpf);
    // The BPF target has no headers of its own; the kernel's are where the machine's are.
    for dir in system_headers(&clang)? {
        command.arg("-idirafter").arg(dir);
    }
    let done = command.arg("-o").arg(object).output();
    let done = done.map_err(|e| format!("{clang}: {e}"))?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned());
    }
    Ok(())
}

/// The skeleton of a compiled program, which refers to the object's file.
fn skeleton(object: &Path) -> Result<String, String> {
    let rust = object.with_extension("skel.rs");
    // Formatting is for readers, and not every toolchain has rustfmt: a path where there is none skips it.
    let made = SkeletonBuilder::new()
        .obj(object)
        .reference_obj(true)
        .rustfmt(object.with_extension("no-rustfmt"))
        .generate(&rust);
    made.map_err(|e| format!("{e:#}"))?;
    std::fs::read_to_string(&rust).map_err(|e| e.to_string())
}

/// Rust constants of the numbers in a program's headers, such as `#define NAME (1ULL << 3)`.
fn constants(bpf: &Path, source: &str) -> Result<String, String> {
    let read =
        |path: &Path| std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
    let source = bpf.join(source);
    let text = read(&source)?;
    let included = text
        .lines()
        .filter_map(|l| l.strip_prefix("#include \"")?.strip_suffix('"'));
    let mut rust = String::new();
    for header in included {
        let beside = source.with_file_name(header);
        let text = if beside.exists() {
            read(&beside)?
        } else {
            read(&bpf.join("include").join(header))?
        };
        let defines = text.lines().filter_map(|l| l.strip_prefix("#define "));
        for (name, value) in defines.filter_map(|l| l.split_once(char::is_whitespace)) {
            let value = value.replace("ULL", "").replace('U', "").replace('~', "!");
            let is_of_it = |c: char| c.is_ascii_digit() || " \t()<|!".contains(c);
            let is_number = value.contains(|c: char| c.is_ascii_digit());
            if is_number && value.chars().all(is_of_it) && !name.contains('(') {
                // Writing into a String cannot fail.
                let _ = writeln!(rust, "pub const {name}: u64 = {};", value.trim());
            }
        }
    }
    Ok(rust)
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
