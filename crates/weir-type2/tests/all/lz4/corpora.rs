// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of programs, and text: ratio beside liblz4's, and clocks.

use super::redis::{redis_json, redis_ycsb};
use super::{ALL_POSITIONS, liblz4_block, liblz4_page};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use weir_type2::engines::PAGE_BYTES;
use weir_type2::engines::lz4::{EncodeRefusal, Positions, clock_bound, decode, encode};

/// Sums over the pages of a corpus; a page that does not become smaller counts as itself.
#[derive(Debug, Default)]
struct CorpusTally {
    pages: u64,
    liblz4_bytes: u64,
    bytes: u64,
    refused: u64,
    encode_clocks: u64,
    encode_clocks_max: u64,
    decode_clocks: u64,
    decode_clocks_max: u64,
}

impl CorpusTally {
    fn ratio_to_liblz4(&self) -> f64 {
        self.liblz4_bytes as f64 / self.bytes as f64
    }

    fn encode_clocks_mean(&self) -> f64 {
        self.encode_clocks as f64 / self.pages as f64
    }

    fn decode_clocks_mean(&self) -> f64 {
        self.decode_clocks as f64 / (self.pages - self.refused).max(1) as f64
    }

    /// The demands on the accelerator's encoder, and on the decoder.
    fn check(&self) {
        assert!(self.ratio_to_liblz4() >= 0.9, "{self:?}");
        assert!(self.encode_clocks_mean() <= 750.0, "{self:?}");
        assert!(self.encode_clocks_max <= 1100, "{self:?}");
        assert!(self.decode_clocks_mean() <= 1050.0, "{self:?}");
        assert!(self.decode_clocks_max <= 4300, "{self:?}");
    }
}

fn tally(corpus: &[u8], positions: Positions) -> CorpusTally {
    let mut tally = CorpusTally::default();
    for page in corpus.chunks_exact(PAGE_BYTES) {
        tally.pages += 1;
        tally.liblz4_bytes += liblz4_block(page).len().min(PAGE_BYTES) as u64;
        let clocks = match encode(page, positions) {
            Ok(block) => {
                tally.bytes += block.bytes.len() as u64;
                let by_theirs = liblz4_page(&block.bytes, PAGE_BYTES);
                assert_eq!(by_theirs.as_deref(), Some(page));
                let read = decode(&block.bytes, PAGE_BYTES).unwrap();
                assert_eq!(read.bytes, page);
                assert!(read.clocks <= clock_bound(block.bytes.len(), PAGE_BYTES));
                tally.decode_clocks += read.clocks;
                tally.decode_clocks_max = tally.decode_clocks_max.max(read.clocks);
                block.clocks
            }
            Err(EncodeRefusal::Incompressible { clocks }) => {
                tally.bytes += PAGE_BYTES as u64;
                tally.refused += 1;
                clocks
            }
            Err(refusal) => panic!("{refusal}"),
        };
        tally.encode_clocks += clocks;
        tally.encode_clocks_max = tally.encode_clocks_max.max(clocks);
    }
    tally
}

/// All text below a folder, in the order of names.
fn read_text(folder: &Path, text: &mut Vec<u8>) {
    let entries = fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            read_text(&path, text);
        } else if path.extension().is_some_and(|e| e == "rs") {
            text.extend(fs::read(path).unwrap());
        }
    }
}

#[test]
fn source_text_keeps_the_demands() {
    let mut text = Vec::new();
    read_text(
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")),
        &mut text,
    );
    tally(&text, Positions::Four).check();
}

/// Pages that a process has written, without those of one repeated word.
pub fn memory(pid: u32, pages_max: usize) -> Vec<u8> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut found = Vec::new();
    for map in maps.lines() {
        let words: Vec<&str> = map.split_whitespace().collect();
        let is_file = words.get(5).is_some_and(|path| path.starts_with('/'));
        if is_file || !words[1].contains('w') {
            continue;
        }
        let (start, end) = words[0].split_once('-').unwrap();
        let start = u64::from_str_radix(start, 16).unwrap();
        let end = u64::from_str_radix(end, 16).unwrap();
        for address in (start..end).step_by(PAGE_BYTES) {
            let mut page = [0; PAGE_BYTES];
            let is_read = memory.read_exact_at(&mut page, address).is_ok();
            if is_read && !page.chunks(8).all(|word| word == &page[..8]) {
                found.extend(page);
            }
            if found.len() >= pages_max * PAGE_BYTES {
                return found;
            }
        }
    }
    found
}

/// Heap of a Python program that holds records with texts, lists and numbers.
fn python_heap(pages_max: usize) -> Vec<u8> {
    let program = "import random, sys, time\n\
        random.seed(1)\n\
        words = 'red green blue alpha beta'.split()\n\
        held = [{'id': i, 'name': 'user%d' % random.randrange(10**6), 'score': random.random(),\n\
            'tags': [random.choice(words) for _ in range(3)]} for i in range(int(sys.argv[1]))]\n\
        print('held', flush=True)\n\
        time.sleep(3600)\n";
    let records = (pages_max * 10).to_string();
    let mut child = Command::new("python3")
        .args(["-c", program, &records])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "held\n");
    let found = memory(child.id(), pages_max);
    child.kill().unwrap();
    child.wait().unwrap();
    found
}

/// Memory of the C compiler when it has begun to write assembly that is not read.
fn compiler_memory(pages_max: usize) -> Vec<u8> {
    let mut child = Command::new("cc")
        .args(["-O1", "-S", "-x", "c", "-o", "-", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut source = child.stdin.take().unwrap();
    for i in 0..3 * pages_max {
        writeln!(
            source,
            "struct s{i} {{ int a; char *b; double c[{n}]; }};\n\
             int f{i}(struct s{i} *x, int y) {{ int r = 0; for (int k = 0; k < y; k++) {{\n\
             r += x->a * k + (int)x->c[k % {n}]; if (r > {i}) r ^= y << 3; }} return r; }}",
            n = i % 7 + 1
        )
        .unwrap();
    }
    drop(source);
    // The first byte of assembly is there; soon the pipe is full, and the compiler waits.
    let mut assembly = BufReader::with_capacity(1, child.stdout.take().unwrap());
    assembly.fill_buf().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let children = fs::read_to_string(children).unwrap();
    let compiler = children.split_whitespace().next().unwrap().parse().unwrap();
    let found = memory(compiler, pages_max);
    drop(assembly);
    child.kill().unwrap();
    child.wait().unwrap();
    found
}

/// Prints the rows of the table in `docs/evidence/type2-engines.md`. `WEIR_CORPUS_PAGES`: pages of each;
/// `WEIR_CORPUS_TEXT`: a folder with source text; `WEIR_CORPUS_OUT`: a folder that the corpora are written
/// to.
#[test]
#[ignore = "minutes: result in docs/evidence/type2-engines.md"]
fn memory_of_programs_keeps_the_demands() {
    let pages = std::env::var("WEIR_CORPUS_PAGES").map_or(3000, |text| text.parse().unwrap());
    let folder = std::env::var("WEIR_CORPUS_TEXT")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/..").to_owned());
    let mut text = Vec::new();
    read_text(Path::new(&folder), &mut text);
    text.truncate(text.len().min(pages * PAGE_BYTES) / PAGE_BYTES * PAGE_BYTES);
    let corpora = [
        ("Redis, YCSB", redis_ycsb(pages)),
        ("Redis, JSON", redis_json(pages)),
        ("Python's heap", python_heap(pages)),
        ("a C compiler", compiler_memory(pages)),
        ("source text", text),
    ];
    if let Some(out) = std::env::var_os("WEIR_CORPUS_OUT") {
        for (name, corpus) in &corpora {
            fs::write(Path::new(&out).join(name), corpus).unwrap();
        }
    }
    for (name, corpus) in &corpora {
        for positions in ALL_POSITIONS {
            let tally = tally(corpus, positions);
            let clocks = tally.encode_clocks_mean();
            println!(
                "| {name} | {} | {} | {:.3} | {:.1} % | {clocks:.0}, {} | {:.0}, {} |",
                tally.pages,
                positions as usize,
                tally.pages as f64 * PAGE_BYTES as f64 / tally.bytes as f64,
                100.0 * tally.ratio_to_liblz4(),
                tally.encode_clocks_max,
                tally.decode_clocks_mean(),
                tally.decode_clocks_max,
            );
            if positions == Positions::Four {
                tally.check();
            }
        }
    }
}
