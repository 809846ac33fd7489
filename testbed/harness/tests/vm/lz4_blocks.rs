// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does the kernel read the blocks of the accelerator's encoder? Its decompressor (`LZ4_decompress_safe` of
//! `lib/lz4`, which zswap calls too) gets them in an initramfs: each chunk of lz4's legacy format is a block.
//! The unpacked files must be the pages.

use crate::common::{Bench, ask_one};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_scenario::testbed::TestbedMachine;
use weir_testbed::guest_env::output;
use weir_testbed::vm::{BootOptions, Vm};
use weir_type2::engines::PAGE_BYTES;
use weir_type2::engines::lz4::{EncodeRefusal, Positions, encode};

/// Begins a file of lz4's legacy format.
const MAGIC: u32 = 0x184c_2102;

/// A file of the guest: its path there, and its content on the host.
struct Unpacked {
    guest: String,
    host: PathBuf,
}

/// An archive of cpio in lz4's legacy format.
struct Lz4Initramfs {
    bytes: Vec<u8>,
    pages: usize,
    /// Pages that the encoder refused: blocks of literals alone.
    refused: usize,
}

impl Lz4Initramfs {
    fn new() -> Self {
        Lz4Initramfs {
            bytes: MAGIC.to_le_bytes().to_vec(),
            pages: 0,
            refused: 0,
        }
    }

    fn chunk(&mut self, block: &[u8]) {
        self.bytes.extend((block.len() as u32).to_le_bytes());
        self.bytes.extend(block);
    }

    /// Appends the bytes as one sequence of literals; there must be at least 15 of them.
    fn literals(&mut self, bytes: &[u8]) {
        let more = bytes.len() - 15;
        let mut block = vec![0xf0];
        block.extend(std::iter::repeat_n(255, more / 255));
        block.push((more % 255) as u8);
        block.extend(bytes);
        self.chunk(&block);
    }

    /// The header of a file. What stands before it has a length that 4 divides.
    fn header(&mut self, name: &str, file_bytes: usize) {
        let (number, mode, name_bytes) = (self.pages + 1, 0o100_444, name.len() + 1);
        let fields = [
            number, mode, 0, 0, 1, 0, file_bytes, 0, 0, 0, 0, name_bytes, 0,
        ];
        let fields = fields.map(|field| format!("{field:08x}")).concat();
        let mut text = format!("070701{fields}{name}\0").into_bytes();
        text.resize(text.len().next_multiple_of(4), 0);
        self.literals(&text);
    }

    /// A file of whole pages, each of them a block.
    fn file(&mut self, name: &str, pages: &[u8], positions: Positions) -> Result<()> {
        self.header(name, pages.len());
        for page in pages.chunks(PAGE_BYTES) {
            self.pages += 1;
            match encode(page, positions) {
                Ok(block) => self.chunk(&block.bytes),
                Err(EncodeRefusal::Incompressible { .. }) => {
                    self.refused += 1;
                    self.literals(page);
                }
                Err(refusal) => return Err(refusal.into()),
            }
        }
        Ok(())
    }

    /// Adds what ends both formats, up to a length that 4 divides, so that another archive may follow.
    fn end(mut self) -> Vec<u8> {
        self.header("TRAILER!!!", 0);
        let whole = (self.bytes.len() + 4).next_multiple_of(4);
        self.bytes.resize(whole, 0);
        self.bytes
    }
}

/// Boots a kernel with the archive, and compares what it has made of it.
fn kernel_reads(bench: &Bench, archive: Lz4Initramfs, files: &[Unpacked]) -> Result<()> {
    let (pages, refused) = (archive.pages, archive.refused);
    ensure!(refused < pages, "no page became a block");
    let folder = tempfile::tempdir()?;
    let initramfs = folder.path().join("blocks");
    fs::write(&initramfs, archive.end())?;
    // The archive, what it becomes, and as much again: a tmpfs takes half of memory.
    let machine = TestbedMachine {
        cpu_count: 1,
        dram_mib: 512 + 3 * ((pages * PAGE_BYTES) >> 20) as u64,
        groups_mib: vec![128],
        ..TestbedMachine::default()
    };
    let options = BootOptions {
        before_initrd: Some(initramfs),
        is_cold: true,
        ..BootOptions::default()
    };
    let vm = Vm::cold(&bench.env, &machine, &options)?;
    for Unpacked { guest, host } in files {
        let theirs = vm
            .run(&format!("md5sum < {guest}"))
            .with_context(|| vm.console_tail())?;
        let wanted = output(Command::new("md5sum").stdin(fs::File::open(host)?))?;
        ensure!(
            theirs == wanted,
            "the kernel read other bytes from the blocks than {} has",
            host.display()
        );
    }
    let release = vm.run("uname -r")?;
    println!(
        "Linux {} read {pages} pages, {refused} of them refused by the encoder",
        release.trim()
    );
    Ok(())
}

/// Sources of a crate, in the order of names.
fn source_text(folder: &Path, text: &mut Vec<u8>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry?.path());
    }
    paths.sort();
    for path in paths {
        if path.is_dir() {
            source_text(&path, text)?;
        } else {
            text.extend(fs::read(path)?);
        }
    }
    Ok(())
}

#[test]
fn the_kernel_reads_the_encoders_blocks() -> Result<()> {
    let Some(bench) = Bench::ready("lz4_blocks")? else {
        return Ok(());
    };
    let mut text = Vec::new();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/weir-type2/src");
    source_text(&sources, &mut text)?;
    text.truncate(text.len() / PAGE_BYTES * PAGE_BYTES);
    let folder = tempfile::tempdir()?;
    let host = folder.path().join("text");
    fs::write(&host, &text)?;
    let mut archive = Lz4Initramfs::new();
    let mut files = Vec::new();
    for positions in [
        Positions::One,
        Positions::Two,
        Positions::Four,
        Positions::Eight,
    ] {
        let name = format!("text-{}", positions as usize);
        archive.file(&name, &text, positions)?;
        files.push(Unpacked {
            guest: format!("/{name}"),
            host: host.clone(),
        });
    }
    ask_one("text", || kernel_reads(&bench, archive, &files))
}

/// `WEIR_CORPUS`: a folder with files of pages, as `rtl/run-checks corpora` takes them.
#[test]
#[ignore = "minutes, and needs memory of programs: make rtl-corpora"]
fn the_kernel_reads_corpora() -> Result<()> {
    let Some(bench) = Bench::ready("lz4_blocks")? else {
        return Ok(());
    };
    let folder = std::env::var_os("WEIR_CORPUS")
        .context("WEIR_CORPUS is not set: it names a folder with files of pages")?;
    let mut count = 0;
    for entry in fs::read_dir(folder)? {
        let host = entry?.path();
        let pages = fs::read(&host)?;
        ensure!(
            pages.len() % PAGE_BYTES == 0 && !pages.is_empty(),
            "{} has no whole pages",
            host.display()
        );
        let mut archive = Lz4Initramfs::new();
        archive.file("pages", &pages, Positions::Four)?;
        println!("{}:", host.display());
        let guest = "/pages".to_owned();
        kernel_reads(&bench, archive, &[Unpacked { guest, host }])?;
        count += 1;
    }
    ensure!(count > 0, "WEIR_CORPUS has no file");
    Ok(())
}
