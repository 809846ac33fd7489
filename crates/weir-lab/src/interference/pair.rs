// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pairs of streams as words: `mmem:ld:16+cxl:ntst:16`.

use anyhow::{Context, Result, bail, ensure};
use weir::lab::perhaps;
use weir_figures::text::harmless;
use weir_hw::host_path::{HostMachine, HostStream, Lever, StorageMode, StreamOp};

/// One side of a pair, with the thread counts to try.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// The stream; its threads are those of the last count.
    pub stream: HostStream,
    /// Numbers of threads, in rising order.
    pub counts: Vec<u32>,
}

/// Two streams beside each other. Each is the other's background.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamPair {
    pub first: Side,
    pub second: Side,
}

const PAPER_MEMORY: [StreamOp; 3] = [StreamOp::Ld, StreamOp::St, StreamOp::Ntst];
const PAPER_STORAGE: [StreamOp; 2] = [StreamOp::RandRead, StreamOp::RandWrite];

/// The 15 pairs of the paper's table III, as far as the machine has their targets; and what it has not.
pub fn of_paper(machine: &HostMachine) -> (Vec<StreamPair>, Vec<(String, String)>) {
    let mmem = PAPER_MEMORY.iter().map(|op| ("mmem", *op));
    let ssd = PAPER_STORAGE.iter().map(|op| ("ssd", *op));
    let has = |target: &str| machine.targets().contains(&target);
    let mut pairs = Vec::new();
    for (target, op) in mmem.chain(ssd) {
        for background in PAPER_MEMORY {
            if has(target) && has("cxl") {
                pairs.push(StreamPair {
                    first: side(machine, target, op, None),
                    second: side(machine, "cxl", background, None),
                });
            }
        }
    }
    let missing = ["mmem", "cxl", "ssd"]
        .into_iter()
        .filter(|target| !has(target));
    let missing = missing.map(|target| {
        let why = format!("machine {} has none in its file", machine.name);
        (format!("targets.{target}"), why)
    });
    (pairs, missing.collect())
}

fn side(machine: &HostMachine, target: &str, op: StreamOp, threads: Option<u32>) -> Side {
    let counts = match threads {
        Some(threads) => vec![threads],
        None => counts(machine.cores.count),
    };
    let last = counts.last().copied().unwrap_or(1);
    Side {
        stream: HostStream::new(target, op, last),
        counts,
    }
}

/// 1, 2, 4 … and half of the cores.
fn counts(cores: u32) -> Vec<u32> {
    let half = (cores / 2).max(1);
    let powers = (0..32).map(|power| 1u32 << power);
    let mut counts: Vec<u32> = powers.take_while(|count| *count < half).collect();
    counts.push(half);
    counts
}

/// A pair from its words.
///
/// # Errors
/// It is no pair, or names what is not there: with what is.
pub fn parse(words: &str, machine: &HostMachine) -> Result<StreamPair> {
    let sides: Vec<&str> = words.split('+').collect();
    let [first, second] = sides[..] else {
        bail!(
            "pair {}: two streams with one `+` between them are needed, as mmem:ld:16+cxl:ntst:16",
            harmless(words)
        );
    };
    let one =
        |text: &str| parse_side(text, machine).with_context(|| format!("pair {}", harmless(words)));
    Ok(StreamPair {
        first: one(first)?,
        second: one(second)?,
    })
}

fn parse_side(words: &str, machine: &HostMachine) -> Result<Side> {
    let parts: Vec<&str> = words.split(':').collect();
    ensure!(
        (2..=4).contains(&parts.len()),
        "`{}` is no stream: TARGET:OP[:THREADS[:direct|:buffered]] is needed",
        harmless(words)
    );
    let target = parts[0];
    ensure!(
        machine.targets().contains(&target),
        "machine {} has no target `{}`: it has {}",
        harmless(&machine.name),
        harmless(target),
        machine.targets().join(", ")
    );
    let is_ssd = target == "ssd";
    let op = StreamOp::named(parts[1]).filter(|op| op.is_storage() == is_ssd);
    let Some(op) = op else {
        let ops = StreamOp::ALL
            .into_iter()
            .filter(|op| op.is_storage() == is_ssd);
        let names: Vec<&str> = ops.map(StreamOp::name).collect();
        bail!(
            "{target} has no op `{}`{}: it does {}",
            harmless(parts[1]),
            perhaps(parts[1], &names),
            names.join(", ")
        );
    };
    let threads = parts.get(2).map(|text| {
        let threads: Option<u32> = text.parse().ok().filter(|threads| *threads > 0);
        threads.with_context(|| {
            let most = machine.cores.count;
            format!(
                "`{}` is no number of threads: 1 to {most} is allowed",
                harmless(text)
            )
        })
    });
    let mut side = side(machine, target, op, threads.transpose()?);
    side.stream.storage = match parts.get(3).copied() {
        None => None,
        Some("direct") if is_ssd => Some(StorageMode::Direct),
        Some("buffered") if is_ssd => Some(StorageMode::Buffered),
        Some(other) => bail!(
            "`{}` is not allowed here: direct or buffered, of an SSD's stream",
            harmless(other)
        ),
    };
    Ok(side)
}

/// A lever from `NAME=VALUE`.
///
/// # Errors
/// It is not of this form, unknown, or out of its range.
pub fn parse_lever(words: &str, machine: &HostMachine) -> Result<(String, f64, Lever)> {
    let split = words.split_once('=');
    let (name, value) = split.with_context(|| {
        format!(
            "lever {}: NAME=VALUE is needed, as quota=0.25",
            harmless(words)
        )
    })?;
    let name = harmless(name);
    let known: Vec<&str> = Lever::names().iter().map(|(name, _)| *name).collect();
    if !known.contains(&name.as_str()) {
        let perhaps = perhaps(&name, &known);
        bail!(
            "no lever is called `{name}`{perhaps}: use one of {}",
            known.join(", ")
        );
    }
    let number: f64 = value
        .parse()
        .ok()
        .with_context(|| format!("lever {name}: `{}` is no number", harmless(value)))?;
    let lever = Lever::named(&name, number, machine)?;
    Ok((name, number, lever))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> HostMachine {
        HostMachine::named("paper-b").unwrap()
    }

    #[test]
    fn the_paper_has_fifteen_pairs() {
        let (pairs, missing) = of_paper(&machine());
        assert_eq!((pairs.len(), missing.len()), (15, 0));
        assert_eq!(pairs[0].first.counts, [1, 2, 4, 8, 16]);
        let mut alone = machine();
        alone.ssd = None;
        alone.memory.truncate(1);
        let (pairs, missing) = of_paper(&alone);
        assert_eq!((pairs.len(), missing.len()), (0, 2));
    }

    #[test]
    fn words_become_streams() {
        let pair = parse("ssd:randwrite:2:direct+cxl:movdir64b-from:16", &machine()).unwrap();
        assert_eq!(pair.first.stream.storage, Some(StorageMode::Direct));
        assert_eq!(pair.first.counts, [2]);
        assert_eq!(pair.second.stream.op, StreamOp::Movdir64bFrom);
        assert_eq!(
            parse("mmem:ld+cxl:st", &machine())
                .unwrap()
                .second
                .counts
                .len(),
            5
        );
    }

    #[test]
    fn errors_name_what_is_allowed() {
        for (words, said) in [
            ("mmem:ld:16", "two streams"),
            ("mmem:ld:1+hbm:ld:1", "it has mmem, cxl, ssd"),
            ("mmem:load:1+cxl:ld:1", "it does ld, ld-chase"),
            ("ssd:ld:1+cxl:ld:1", "it does randread, randwrite"),
            ("mmem:ld:0+cxl:ld:1", "1 to 32"),
            ("mmem:ld:x+cxl:ld:1", "1 to 32"),
            ("mmem:ld:1:direct+cxl:ld:1", "of an SSD's stream"),
            ("mmem:ld:1:1:1+cxl:ld:1", "is no stream"),
        ] {
            let error = format!("{:#}", parse(words, &machine()).unwrap_err());
            assert!(error.contains(said), "{words}: {error}");
        }
        for (words, said) in [
            ("quota", "NAME=VALUE"),
            ("quotas=1", "did you mean `quota`"),
            ("quota=x", "is no number"),
            ("quota=2", "0.001 to 1"),
            ("mba=0.05", "0.1 to 1"),
            ("smba=0", "125000000 to"),
            ("frequency=3", "0.8 to 2"),
        ] {
            let error = format!("{:#}", parse_lever(words, &machine()).unwrap_err());
            assert!(error.contains(said), "{words}: {error}");
        }
    }
}
