// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The initrd overlay: an uncompressed archive with the tables where Linux finds them
//! (`Documentation/admin-guide/acpi/initrd_table_override.rst`; layout: cpio, "newc").

use crate::error::AcpiError;
use crate::table::{Kind, TABLE_BYTES_MAX, Table};

const FOLDER: &str = "kernel/firmware/acpi";
/// An archive that the kernel reads is cpio in the form "newc": a header of 110 bytes, this magic number and
/// then thirteen numbers of eight hexadecimal digits, the name, the content, each padded to four bytes, and
/// an entry named [`TRAILER`] at the end (kernel,
/// `Documentation/driver-api/early-userspace/buffer-format.rst`).
const MAGIC: &[u8] = b"070701";
const HEADER_BYTES: usize = 110;
const TRAILER: &str = "TRAILER!!!";
const REGULAR: u32 = 0o100_644;
const DIRECTORY: u32 = 0o40_755;
/// Archives of the kernel's own tools are padded to a multiple of this.
const BLOCK_BYTES: usize = 512;

/// Longest overlay that is read back.
pub const OVERLAY_BYTES_MAX: usize = 4 * TABLE_BYTES_MAX;

/// Packs the tables. The same tables give the same bytes.
pub fn pack(tables: &[Table]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut inode = 0;
    let mut add = |name: &str, mode: u32, data: &[u8]| {
        inode += 1;
        entry(&mut out, inode, name, mode, data);
    };
    for folder in ["kernel", "kernel/firmware", FOLDER] {
        add(folder, DIRECTORY, &[]);
    }
    for table in tables {
        let name = format!("{FOLDER}/{}.aml", table.kind().signature().to_lowercase());
        add(&name, REGULAR, table.bytes());
    }
    add(TRAILER, 0, &[]);
    out.resize(out.len().next_multiple_of(BLOCK_BYTES), 0);
    out
}

fn entry(out: &mut Vec<u8>, inode: u32, name: &str, mode: u32, data: &[u8]) {
    let links = if mode == DIRECTORY { 2 } else { 1 };
    let size = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    // inode, mode, uid, gid, links, mtime, size, device (2), special (2), length of the name, checksum
    let numbers = [
        inode,
        mode,
        0,
        0,
        links,
        0,
        size(data.len()),
        0,
        0,
        0,
        0,
        size(name.len() + 1),
        0,
    ];
    out.extend_from_slice(MAGIC);
    for number in numbers {
        out.extend_from_slice(format!("{number:08x}").as_bytes());
    }
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// The tables in an overlay that [`pack`] made. Bytes after its trailer are not read, so that an
/// initrd that begins with an overlay can be given too.
///
/// # Errors
/// It is no such archive, or a table in it is not sound.
pub fn unpack(archive: &[u8]) -> Result<Vec<Table>, AcpiError> {
    let wrong = |at: usize| {
        AcpiError::Domain(format!(
            "this is no overlay made by `weir groups acpi` (byte {at})"
        ))
    };
    let mut tables = Vec::new();
    let mut at = 0_usize;
    loop {
        let header = archive
            .get(at..at.saturating_add(HEADER_BYTES))
            .ok_or_else(|| wrong(at))?;
        if header.get(..6) != Some(MAGIC) {
            return Err(wrong(at));
        }
        let (size, name_size) = match (field(header, 6), field(header, 11)) {
            (Some(size), Some(name)) if size <= OVERLAY_BYTES_MAX && name <= 256 => (size, name),
            _ => return Err(wrong(at)),
        };
        let name =
            archive.get(at + HEADER_BYTES..(at + HEADER_BYTES + name_size).saturating_sub(1));
        let name = name.ok_or_else(|| wrong(at))?;
        let data_at = (at + HEADER_BYTES + name_size).next_multiple_of(4);
        let data = archive
            .get(data_at..data_at + size)
            .ok_or_else(|| wrong(at))?;
        if name == TRAILER.as_bytes() {
            return Ok(tables);
        }
        let inside = name
            .strip_prefix(FOLDER.as_bytes())
            .and_then(|n| n.strip_prefix(b"/"));
        if let Some(file) = inside {
            let kind = Kind::ALL
                .into_iter()
                .find(|k| file == format!("{}.aml", k.signature().to_lowercase()).as_bytes());
            tables.push(Table::read(kind.ok_or_else(|| wrong(at))?, data.to_vec())?);
        }
        at = (data_at + size).next_multiple_of(4);
    }
}

/// One of the thirteen numbers behind the magic.
fn field(header: &[u8], number: usize) -> Option<usize> {
    let at = MAGIC.len() + 8 * number;
    let text = std::str::from_utf8(header.get(at..at + 8)?).ok()?;
    usize::from_str_radix(text, 16).ok()
}
