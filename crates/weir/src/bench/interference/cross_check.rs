// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same machine measured by other tools, where they are installed: mbw, stress-ng, fio. Each runs alone,
//! on the CPU and node of our own stream, and its figure stands beside ours.

use super::names::StreamTarget;
use super::plan::WARM_SECONDS;
use super::program::{ProgramSpec, figure};
use super::progress::BenchProgress;
use super::setup::BenchSetup;
use crate::output::text::harmless;
use anyhow::{Context, Result};
use regex_lite::Regex;
use std::fmt::Write;
use std::time::Duration;
use weir_bench::kernels::Operation;
use weir_bench::storage::{StorageOperation, TargetKind};
use weir_bench::streams::{MemoryPlan, MemoryStream, Part, Stream, measure};

const SPAN: Duration = Duration::from_secs(3);
/// stress-ng 0.15 says no rate of a shorter run.
const STREAM_SECONDS: u64 = 6;
/// stress-ng goes over its arrays in doubles.
const STREAM_WIDTH_BYTES: u32 = 8;
const MIB: f64 = 1_048_576.0;

/// One figure of both.
pub struct ToolCheck {
    /// `mbw_dumb`, `fio_randread`.
    pub name: &'static str,
    /// What is compared.
    about: &'static str,
    /// Both, or why they are not known.
    figures: Result<ToolFigures, String>,
}

/// Ours before and after theirs, in bytes per second or I/Os per second.
struct ToolFigures {
    before: f64,
    theirs: f64,
    after: f64,
}

impl ToolCheck {
    /// For the document.
    pub fn words(&self) -> String {
        match &self.figures {
            Ok(ToolFigures {
                before,
                theirs,
                after,
            }) => format!(
                "{}: ours {before:.0} before and {after:.0} after, theirs {theirs:.0}, ratio {:.3}",
                self.about,
                (before * after).sqrt() / theirs
            ),
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

/// Runs them all.
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
    // Twice, as theirs lies in the middle of what changes meanwhile.
    let before = ours(setup, tool, first)?;
    let output = spec.start()?.wait(setup.is_stopped)?.context("stopped")?;
    let found = figure(&output, &Regex::new(tool.expression)?)? * tool.unit;
    let theirs = match tool.program {
        // It says reads and writes apart, of the same bytes.
        "stress-ng" => {
            found + figure(&output, &Regex::new(r"([0-9.]+) MB write/sec")?)? * tool.unit
        }
        _ => found,
    };
    Ok(ToolFigures {
        before,
        theirs,
        after: ours(setup, tool, first)?,
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
        "mbw" => format!("mbw -t1 -n 10 {mib}"),
        "stress-ng" => format!("stress-ng --stream 1 --timeout {STREAM_SECONDS} --metrics 2>&1"),
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
            // Jobs that are processes leave the process group and its share of CPU time (setsid).
            let (rw, fields) = match tool.name {
                "fio_randread" => ("randread", "r=8"),
                _ => ("randwrite", "w=49"),
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

/// For people; nothing where nothing was checked.
pub fn table(checks: &[ToolCheck]) -> String {
    let mut text = String::new();
    for check in checks {
        let _ = writeln!(text, "cross-check, {}", check.words());
    }
    text
}
