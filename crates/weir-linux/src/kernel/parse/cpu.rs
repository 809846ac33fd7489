// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/proc/cpuinfo`: what CPU this is.

use super::{Malformed, decimal, lines};
use weir_events::Cpu;

/// What stands behind a name, at its first place.
fn value<'a>(text: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    lines(text).find_map(|line| {
        let colon = line.iter().position(|b| *b == b':')?;
        (line[..colon].trim_ascii() == wanted).then(|| line[colon + 1..].trim_ascii())
    })
}

pub fn flags(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    super::words(value(text, b"flags").unwrap_or_default())
}

/// An Arm CPU in words: its maker and its model (`MIDR_EL1`; kernel, arch/arm64/kernel/cpuinfo.c).
pub fn arm(text: &[u8]) -> Option<String> {
    let number = |wanted: &[u8]| {
        let text = std::str::from_utf8(value(text, wanted)?).ok()?;
        u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
    };
    let (implementer, part) = (number(b"CPU implementer")?, number(b"CPU part")?);
    Some(format!(
        "an Arm CPU (implementer {implementer:#x}, part {part:#x})"
    ))
}

/// The first CPU that the file describes. weir knows no machine with sockets that differ.
///
/// # Errors
/// A line of `vendor_id`, `cpu family` or `model` is missing or is not what x86 writes.
pub fn cpu(text: &[u8]) -> Result<Cpu, Malformed> {
    const WANT: Malformed = Malformed("the lines vendor_id, cpu family and model of an x86 CPU");
    let number = |wanted: &[u8]| {
        let number = decimal(value(text, wanted).ok_or(WANT)?).map_err(|_| WANT)?;
        u32::try_from(number).map_err(|_| WANT)
    };
    let vendor = value(text, b"vendor_id").ok_or(WANT)?;
    let is_plain = vendor.len() <= 12 && vendor.iter().all(u8::is_ascii_graphic);
    let vendor = std::str::from_utf8(vendor)
        .ok()
        .filter(|v| is_plain && !v.is_empty());
    Ok(Cpu {
        vendor: vendor.ok_or(WANT)?.to_owned(),
        family: number(b"cpu family")?,
        model: number(b"model")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_cpu_is_described() {
        let text = b"processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: INTEL(R) XEON(R)\n\nprocessor\t: 1\n";
        assert_eq!(cpu(text).unwrap().to_string(), "GenuineIntel-6-CF");
        for bad in [
            "",
            "vendor_id : GenuineIntel\n",
            "vendor_id: \ncpu family: 6\nmodel: 1\n",
            "vendor_id: A\x1b[2J\ncpu family: 6\nmodel: 1\n",
            "vendor_id: A\ncpu family: -6\nmodel: 1\n",
            "vendor_id: A\ncpu family: 6\nmodel: 4294967296\n",
        ] {
            assert!(cpu(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_arm_cpu_and_flags() {
        let text = b"processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd4f\n";
        assert_eq!(
            arm(text).unwrap(),
            "an Arm CPU (implementer 0x41, part 0xd4f)"
        );
        assert!(cpu(text).is_err());
        for bad in [
            "",
            "CPU implementer: 41\nCPU part: 0x1\n",
            "CPU implementer: 0x41\nCPU part: 0x\x1b[2J\n",
        ] {
            assert_eq!(arm(bad.as_bytes()), None, "{bad:?}");
        }
        let flagged = b"flags\t\t: fpu hypervisor\nflags\t\t: other\n";
        assert_eq!(
            flags(flagged).collect::<Vec<_>>(),
            [&b"fpu"[..], b"hypervisor"]
        );
        assert_eq!(flags(b"flags").count(), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, text in "((vendor_id|cpu family|model)?[ \t:0-9A-Za-z]{0,12}\n){0,8}") {
            let _ = (cpu(&bytes), cpu(text.as_bytes()), arm(&bytes), flags(&bytes).count());
        }
    }
}
