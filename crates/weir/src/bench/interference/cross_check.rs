// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same machine measured by other tools, where they are installed: mbw, stress-ng, fio. Each runs alone,
//! on the CPU and node of our own stream, and its figure stands beside ours.

use super::names::StreamTarget;
use super::plan::WARM_SECONDS;
use super::program::{ProgramSpec, figure};
use super::progress::BenchProgress;
use super::setup::BenchSetup;
use anyhow::{Context, Result};
use regex_lite::Regex;
use std::fmt::Write;
use std::time::Duration;
use weir_bench::kernels::Operation;
use weir_bench::storage::{StorageOperation, TargetKind};
use weir_bench::streams::{MemoryPlan, MemoryStream, Part, Stream, measure};
use weir_figures::text::harmless;

/// Theirs, each between two of ours.
const TURNS: usize = 3;
const SPAN: Duration = Duration::from_secs(3);
/// stress-ng 0.15 says no rate of a shorter run.
const STREAM_SECONDS: u64 = 6;
/// stress-ng goes over its arrays in doubles.
const STREAM_WIDTH_BYTES: u32 = 8;
const MIB: f64 = 1_048_576.0;

pub struct ToolCheck {
    /// Name of the check, such as `mbw_dumb` or `fio_randread`.
    pub name: &'static str,
    about: &'static str,
    /// Both, or why they are not known.
    figures: Result<ToolFigures, String>,
}

/// Ours and theirs by turns, in bytes per second or I/Os per second.
#[derive(Debug)]
struct ToolFigures {
    /// Before the first of theirs, and after each: one more than of theirs.
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

impl ToolFigures {
    /// Ours ÷ theirs of each turn: ours is the geometric mean of before and after, as what changes meanwhile
    /// changes both.
    fn ratios(&self) -> Vec<f64> {
        let around = self.ours.windows(2).map(|pair| (pair[0] * pair[1]).sqrt());
        around
            .zip(&self.theirs)
            .map(|(ours, theirs)| ours / theirs)
            .collect()
    }

    /// `ours 51 to 53, theirs 50 to 52, ratio 1.01 (0.99 to 1.03 in 3 turns)`.
    fn words(&self) -> String {
        let ratios = self.ratios();
        let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
        let mean = (logs / ratios.len().max(1) as f64).exp();
        let (ours, theirs, all) = (range(&self.ours), range(&self.theirs), range(&ratios));
        format!(
            "ours {:.0} to {:.0}, theirs {:.0} to {:.0}, ratio {mean:.3} ({:.3} to {:.3} in {} turns)",
            ours.0,
            ours.1,
            theirs.0,
            theirs.1,
            all.0,
            all.1,
            ratios.len()
        )
    }
}

fn range(all: &[f64]) -> (f64, f64) {
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    (least, all.iter().copied().fold(0.0, f64::max))
}

impl ToolCheck {
    pub fn words(&self) -> String {
        match &self.figures {
            Ok(figures) => format!("{}: {}", self.about, figures.words()),
            Err(why) => format!("{}: {why}", self.about),
        }
    }
}

/// A tool, and our stream of the same work.
struct Tool {
    name: &'static str,
    about: &'static str,
    program: &'static str,
    /// Its figure, and what one of it is in bytes or I/Os per second.
    expression: &'static str,
    unit: f64,
}

const TOOLS: [Tool; 4] = [
    Tool {
        name: "mbw_dumb",
        about: "mbw -t1, bytes copied per second, beside copy",
        program: "mbw",
        expression: r"AVG\s+Method: DUMB.*Copy: ([0-9.]+) MiB/s",
        unit: MIB,
    },
    Tool {
        name: "stress_ng_stream",
        about: "stress-ng --stream, bytes read and written per second, beside copy in accesses of 8 bytes",
        program: "stress-ng",
        expression: r"memory rate: ([0-9.]+) MB read/sec",
        unit: 1e6,
    },
    Tool {
        name: "fio_randread",
        about: "fio, random reads per second, direct",
        program: "fio",
        expression: r"r=([0-9.]+)",
        unit: 1.0,
    },
    Tool {
        name: "fio_randwrite",
        about: "fio, random writes per second, direct",
        program: "fio",
        expression: r"w=([0-9.]+)",
        unit: 1.0,
    },
];

pub fn run(setup: &BenchSetup<'_>, progress: &BenchProgress) -> Vec<ToolCheck> {
    let check = |tool: &Tool| {
        progress.say(&format!("cross-check: {}", tool.about));
        let figures = compared(setup, tool).map_err(|why| harmless(&format!("{why:#}")));
        ToolCheck {
            name: tool.name,
            about: tool.about,
            figures,
        }
    };
    TOOLS.iter().map(check).collect()
}

fn compared(setup: &BenchSetup<'_>, tool: &Tool) -> Result<ToolFigures> {
    is_installed(tool.program)?;
    let first = setup.site.cpus.sides[0][0];
    let command = command(setup, tool)?;
    let spec = ProgramSpec {
        command,
        cpus: vec![first],
        node: setup.site.mmem,
        cgroup: None,
    };
    let mut figures = ToolFigures {
        ours: vec![ours(setup, tool, first)?],
        theirs: Vec::new(),
    };
    for _ in 0..TURNS {
        let output = spec.start()?.wait(setup.is_stopped)?.context("stopped")?;
        figures.theirs.push(theirs(tool, &output)?);
        figures.ours.push(ours(setup, tool, first)?);
    }
    Ok(figures)
}

/// What a tool says, in bytes per second or I/Os per second.
fn theirs(tool: &Tool, output: &str) -> Result<f64> {
    let rate = |expression: &str| -> Result<f64> {
        let found = figure(output, &Regex::new(expression)?);
        found
            .map(|rate| rate * tool.unit)
            .with_context(|| format!("{} says no rate", tool.program))
    };
    Ok(match tool.program {
        // It says reads and writes apart, of the same bytes.
        "stress-ng" => rate(tool.expression)? + rate(r"([0-9.]+) MB write/sec")?,
        _ => rate(tool.expression)?,
    })
}

fn is_installed(program: &str) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    is_there
        .then_some(())
        .with_context(|| format!("{program} is not installed: apt install {program}"))
}

fn command(setup: &BenchSetup<'_>, tool: &Tool) -> Result<String> {
    let mib = (setup.site.thread_bytes >> 20).max(1);
    let seconds = SPAN.as_secs();
    Ok(match tool.program {
        // Theirs has huge pages where ours has: malloc asks for them, from glibc 2.35 on.
        "mbw" => format!("GLIBC_TUNABLES=glibc.malloc.hugetlb=1 mbw -t1 -n 10 {mib}"),
        "stress-ng" => format!(
            "stress-ng --stream 1 --stream-madvise hugepage --timeout {STREAM_SECONDS} --metrics 2>&1"
        ),
        _ => {
            let disk = setup.disk.as_ref().context("there is no SSD for it")?;
            let path = weir_report::quoted(&disk.path.display().to_string());
            let place = match disk.kind {
                TargetKind::OwnFile => {
                    format!("--directory={path} --unlink=1 --size={}", disk.bytes)
                }
                _ => format!("--filename={path} --readonly"),
            };
            let engine = match setup.engine {
                weir_bench::storage::Engine::Ring => "io_uring",
                weir_bench::storage::Engine::Caller => "psync",
            };
            // Jobs that are processes leave the process group and its share of CPU time (setsid). A new
            // file's blocks are marked as written one by one, which takes half of the rate of writes: so it
            // is written before (`--overwrite`), as ours is.
            let (rw, fields) = match tool.name {
                "fio_randread" => ("randread", "r=8"),
                _ => ("randwrite --overwrite=1", "w=49"),
            };
            let (label, field) = fields.split_once('=').unwrap_or_default();
            format!(
                "fio --name=weir --thread {place} --rw={rw} --bs={} --iodepth={} --ioengine={engine} --direct=1 --time_based \
                 --runtime={seconds} --output-format=terse --terse-version=3 | cut -d ';' -f {field} | sed 's/^/{label}=/'",
                setup.block_bytes, setup.depth
            )
        }
    })
}

/// Our own figure, in the unit of the tool.
fn ours(setup: &BenchSetup<'_>, tool: &Tool, cpu: u32) -> Result<f64> {
    let mut stream: Box<dyn Stream> = match tool.program {
        "fio" => {
            let operation = match tool.name {
                "fio_randread" => StorageOperation::RandRead,
                _ => StorageOperation::RandWrite,
            };
            Box::new(setup.storage(operation, vec![cpu], true)?)
        }
        _ => {
            let node = setup
                .site
                .node(StreamTarget::Mmem)
                .context("there is no local memory")?;
            Box::new(MemoryStream::prepare(MemoryPlan {
                kernel: Operation::Copy.kernel(match tool.program {
                    "stress-ng" => Some(STREAM_WIDTH_BYTES),
                    _ => setup.width_bytes,
                })?,
                cpus: vec![cpu],
                node,
                other_node: node,
                // Both halves as large as each of theirs.
                thread_bytes: usize::try_from(2 * setup.site.thread_bytes)?,
                seed: setup.seed,
            })?)
        }
    };
    let mut parts = [Part {
        stream: &mut *stream,
        cpus: 1,
    }];
    let counts = measure(
        &mut parts,
        Duration::from_secs_f64(WARM_SECONDS),
        SPAN,
        setup.is_stopped,
    )?;
    let count = counts
        .and_then(|counts| counts.first().copied())
        .context("stopped")?;
    let per_sec = count.count as f64 * 1e9 / count.span_ns as f64;
    Ok(match tool.program {
        "fio" => per_sec,
        // Lines copied; stress-ng counts their reads and writes.
        "stress-ng" => per_sec * 2.0 * weir_bench::LINE_BYTES as f64,
        _ => per_sec * weir_bench::LINE_BYTES as f64,
    })
}

/// The checks as a table for people; nothing where nothing was checked.
pub fn table(checks: &[ToolCheck]) -> String {
    let mut text = String::new();
    for check in checks {
        let _ = writeln!(text, "cross-check, {}", check.words());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_turn_is_compared_with_ours_around_it() {
        // A machine that becomes twice as fast in the second turn: no turn says that theirs differ.
        let figures = ToolFigures {
            ours: vec![100.0, 100.0, 400.0],
            theirs: vec![100.0, 200.0],
        };
        assert_eq!(figures.ratios(), [1.0, 1.0]);
        let half = ToolFigures {
            ours: vec![100.0, 100.0, 100.0],
            theirs: vec![50.0, 200.0],
        };
        assert_eq!(
            half.words(),
            "ours 100 to 100, theirs 50 to 200, ratio 1.000 (0.500 to 2.000 in 2 turns)"
        );
    }

    #[test]
    fn what_tools_print_is_read_in_its_unit() {
        let of = |name| TOOLS.iter().find(|tool| tool.name == name).unwrap();
        let mbw = "AVG\tMethod: DUMB\tElapsed: 0.1\tMiB: 256.0\tCopy: 2.500 MiB/s\n";
        assert_eq!(theirs(of("mbw_dumb"), mbw).unwrap(), 2.5 * MIB);
        let stream = "stream: memory rate: 3.5 MB read/sec, 1.5 MB write/sec, 0.2 Mflop/sec\n";
        assert_eq!(theirs(of("stress_ng_stream"), stream).unwrap(), 5e6);
        assert_eq!(theirs(of("fio_randwrite"), "w=512\n").unwrap(), 512.0);
        let said = theirs(of("fio_randread"), "r=0\n").unwrap_err().to_string();
        assert!(said.contains("fio says no rate"), "{said}");
        assert!(theirs(of("fio_randread"), "fio: no such file\n").is_err());
    }
}
