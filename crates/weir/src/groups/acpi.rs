// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir groups acpi --sizes …`: reads the firmware's tables, splits the device's domain, writes an initrd
//! overlay. All of it is made in memory first: either the whole overlay is written or nothing.

use super::cli::AcpiArgs;
use crate::cli::exit::{Exit, print, print_json};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write as _};
use std::path::{Path, PathBuf};
use weir_acpi::table::TABLE_BYTES_MAX;
use weir_acpi::{Firmware, Kind, Split, Table, cpio, split};
use weir_figures::text::{self, size};
use weir_figures::{Cell, Setting, Table as Rows, terminal_table};
use weir_files::Access;
use weir_linux::Roots;

#[derive(Serialize)]
struct AcpiReport<'a> {
    /// None with `--dry-run`.
    overlay: Option<&'a Path>,
    groups: Vec<AcpiGroup>,
    tables: Vec<TableRow>,
    untouched: Vec<&'static str>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct AcpiGroup {
    domain: u32,
    share: String,
    size_bytes: u64,
    spans: Vec<SpanRow>,
}

#[derive(Serialize)]
struct SpanRow {
    base_bytes: u64,
    length_bytes: u64,
}

#[derive(Serialize)]
struct TableRow {
    signature: &'static str,
    length_bytes: usize,
    oem_revision: u32,
}

/// Splits.
///
/// # Errors
/// The SRAT is missing or not sound, a table has a wrong checksum, the device cannot be split so, the overlay
/// cannot be written.
pub fn acpi(args: &AcpiArgs, roots: &Roots) -> Result<Exit> {
    let sizes = args.sizes.as_ref().context("--sizes is missing")?;
    let firmware = read_firmware(&tables_dir(args, roots))?;
    let grain_bytes = args.align_mib << 20;
    let made = split(&firmware, args.domain, sizes, grain_bytes)?;
    if !args.dry_run {
        write_new(&args.out, &cpio::pack(&made.tables))?;
    }
    let report = AcpiReport {
        overlay: (!args.dry_run).then_some(args.out.as_path()),
        groups: made.groups.iter().map(group_row).collect(),
        tables: made.tables.iter().map(table_row).collect(),
        untouched: made.untouched.iter().map(|kind| kind.signature()).collect(),
        notes: notes(&made, &firmware, grain_bytes, roots),
    };
    if args.json {
        print_json(&report)?;
    } else {
        print(&page(&report, &args.out))?;
    }
    Ok(Exit::Done)
}

fn group_row(group: &weir_acpi::Group) -> AcpiGroup {
    let span = |span: &weir_acpi::srat::Span| SpanRow {
        base_bytes: span.base_bytes,
        length_bytes: span.length_bytes,
    };
    AcpiGroup {
        domain: group.domain,
        share: group.share.to_string(),
        size_bytes: group.bytes(),
        spans: group.spans.iter().map(span).collect(),
    }
}

fn table_row(table: &Table) -> TableRow {
    TableRow {
        signature: table.kind().signature(),
        length_bytes: table.bytes().len(),
        oem_revision: table.oem_revision(),
    }
}

pub(super) fn tables_dir(args: &AcpiArgs, roots: &Roots) -> PathBuf {
    let given = args.tables.clone();
    given.unwrap_or_else(|| roots.sys.join("firmware/acpi/tables"))
}

/// The tables in a directory, named by their signatures. Only the first must be there.
///
/// # Errors
/// One cannot be read, or is not sound.
pub(super) fn read_firmware(dir: &Path) -> Result<Firmware> {
    let table = |kind| read_table(dir, kind);
    let srat = table(Kind::Srat)?.with_context(|| {
        format!(
            "there is no {}: this firmware does not say which memory belongs to which domain, so there \
             is no domain to split",
            dir.join("SRAT").display()
        )
    })?;
    Ok(Firmware::read(
        srat,
        table(Kind::Slit)?,
        table(Kind::Hmat)?,
    )?)
}

/// One table, if the directory has it.
///
/// # Errors
/// It cannot be read, or is not sound.
pub(super) fn read_table(dir: &Path, kind: Kind) -> Result<Option<Table>> {
    let path = dir.join(kind.signature());
    let bytes = match read_bounded(&path, TABLE_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => bail!(
            "cannot read {}: {e}{}",
            path.display(),
            weir_linux::hint(&e)
        ),
    };
    let table = Table::read(kind, bytes);
    table.map(Some).with_context(|| path.display().to_string())
}

/// A whole file, and one byte more than `most` of it at most.
pub(super) fn read_bounded(path: &Path, most: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = weir_files::open_regular(path)?;
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a file that is not there yet: whole, or not at all.
fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let mut file = weir_files::begin(path, Access::Shared).with_context(cannot)?;
    file.write_all(bytes).with_context(cannot)?;
    file.sync().with_context(cannot)?;
    match file.place() {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => bail!(
            "{} is there already; remove it, or name another with --out",
            path.display()
        ),
        Err(e) => Err(e).with_context(cannot),
    }
}

/// What should be known before a boot.
fn notes(made: &Split, firmware: &Firmware, grain_bytes: u64, roots: &Roots) -> Vec<String> {
    let mut notes = Vec::new();
    let off_grain = |g: &weir_acpi::Group| g.spans.iter().any(|s| s.base_bytes % grain_bytes != 0);
    if made.groups.iter().any(off_grain) {
        notes.push(format!(
            "the device's memory does not begin at a multiple of {}: the first group is cut there",
            size(grain_bytes)
        ));
    }
    notes.extend(made.notes.iter().cloned());
    let is_left_out = |(kind, _): &(Kind, _)| *kind == Kind::Hmat;
    if firmware.hmat.is_none() && !firmware.left_out.iter().any(is_left_out) {
        notes.push(
            "the firmware has no HMAT: latency and bandwidth of groups will not be known".into(),
        );
    }
    for kind in &made.untouched {
        let name = kind.signature();
        notes.push(format!(
            "the {name} does not mention the device and stays as it is"
        ));
    }
    let lockdown = roots.sys.join("kernel/security/lockdown");
    let lockdown = read_bounded(&lockdown, 4096).unwrap_or_default();
    let locked = ["[integrity]", "[confidentiality]"];
    if locked
        .iter()
        .any(|mode| contains(&lockdown, mode.as_bytes()))
    {
        notes.push(
            "this kernel is locked down (Secure Boot): it does not take tables from an initrd; boot \
             without Secure Boot"
                .into(),
        );
    }
    notes
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn page(report: &AcpiReport, out: &Path) -> String {
    let rows = report.groups.iter().map(|group| {
        let span = |s: &SpanRow| {
            let last = s.base_bytes + s.length_bytes - 1;
            format!("{:#x}–{last:#x}", s.base_bytes)
        };
        let spans: Vec<String> = group.spans.iter().map(span).collect();
        vec![
            Cell::words(format!("domain {}", group.domain)),
            Cell::number(&group.share),
            Cell::number(size(group.size_bytes)),
            Cell::words(spans.join(" ")),
        ]
    });
    let heads = ["group", "share", "size", "addresses"];
    let mut page = terminal_table(&Rows::new("", &heads, rows), Setting::WIDE);
    // Writing into a String cannot fail, here and below.
    for table in &report.tables {
        let _ = writeln!(
            page,
            "{} of {} bytes, OEM revision {}",
            table.signature, table.length_bytes, table.oem_revision
        );
    }
    for note in &report.notes {
        let _ = writeln!(page, "note: {note}");
    }
    match report.overlay {
        Some(path) => page + &instructions(path),
        None => {
            let _ = writeln!(
                page,
                "{} was not written (--dry-run)",
                text::harmless(&out.to_string_lossy())
            );
            page
        }
    }
}

fn instructions(overlay: &Path) -> String {
    let overlay = text::harmless(&overlay.to_string_lossy());
    format!(
        "
wrote {overlay}. The kernel takes these tables if they come first in the initrd:
  GRUB          cp {overlay} /boot/weir-groups.cpio
                add to /etc/default/grub: GRUB_EARLY_INITRD_LINUX_CUSTOM=\"weir-groups.cpio\"
                update-grub (or grub2-mkconfig -o /boot/grub2/grub.cfg)
  systemd-boot  in the entry, above the other initrd line: initrd /weir-groups.cpio
  by hand       cat {overlay} /boot/initrd.img-VERSION > /boot/initrd.img-groups
After the boot: weir groups acpi --check {overlay}
To undo: take it out of the boot loader again, and boot. Keep an entry without it until it has worked once.
"
    )
}
