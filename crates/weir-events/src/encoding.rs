// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From terms to the numbers of `perf_event_open`. Which bits a term takes is said by the
//! kernel, in a file of the PMU's `format` directory for each field: `config:0-7`,
//! `config:8-15,32-63`, `config1:0-63` (kernel, `Documentation/ABI/testing/
//! sysfs-bus-event_source-devices-format`). The lowest bit of the value goes to the first bit named.

use crate::terms::Terms;

/// Numbers of `perf_event_attr`: `config`, `config1`, `config2`, `config3`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config(pub [u64; 4]);

/// A field of the format directory: which number, and its bits, lowest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    number: usize,
    /// First and last bit of each run.
    runs: Vec<(u32, u32)>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodingError {
    /// The kernel's driver of the PMU does not know this field.
    #[error("the PMU has no field {0}")]
    NoField(String),
    #[error("{name}={value:#x} does not fit its {bits} bits here")]
    TooWide { name: String, value: u64, bits: u32 },
}

impl Field {
    /// Reads a format file.
    ///
    /// # Errors
    /// Anything but `configN:` and runs of bits below 64, no bit twice.
    pub fn parse(text: &[u8]) -> Result<Field, String> {
        let text =
            std::str::from_utf8(text.trim_ascii()).map_err(|_| "it is no text".to_owned())?;
        let wrong = || format!("{text:?}: a format such as config:0-7,32-35 is wanted");
        let (number, runs) = text.split_once(':').ok_or_else(wrong)?;
        let number = match number {
            "config" => 0,
            "config1" => 1,
            "config2" => 2,
            "config3" => 3,
            _ => return Err(wrong()),
        };
        let mut field = Field {
            number,
            runs: Vec::new(),
        };
        let mut used = 0u64;
        for run in runs.split(',') {
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            let (first, last) = (bit(first).ok_or_else(wrong)?, bit(last).ok_or_else(wrong)?);
            if last < first {
                return Err(wrong());
            }
            let mask = mask(last - first + 1) << first;
            if used & mask != 0 {
                return Err(wrong());
            }
            used |= mask;
            field.runs.push((first, last));
        }
        Ok(field)
    }

    pub fn bits(&self) -> u32 {
        self.runs.iter().map(|(first, last)| last - first + 1).sum()
    }

    fn put(&self, value: u64, config: &mut Config) {
        let mut rest = value;
        for (first, last) in &self.runs {
            let mask = mask(last - first + 1);
            if let Some(number) = config.0.get_mut(self.number) {
                *number = (*number & !(mask << first)) | ((rest & mask) << first);
            }
            rest = rest.checked_shr(last - first + 1).unwrap_or(0);
        }
    }
}

fn bit(text: &str) -> Option<u32> {
    let plain = !text.is_empty() && text.len() <= 2 && text.bytes().all(|b| b.is_ascii_digit());
    plain
        .then(|| text.parse().ok())
        .flatten()
        .filter(|bit| *bit < 64)
}

/// So many ones: 1 to 64.
fn mask(bits: u32) -> u64 {
    u64::MAX.checked_shr(64 - bits.min(64)).unwrap_or(0)
}

/// Encodes terms by the fields of a PMU.
///
/// # Errors
/// A field that the PMU does not have, or a value that is too wide for it: then the kernel's driver
/// is older than the event, and would count something else.
pub fn encode<'a>(
    terms: &Terms,
    field: impl Fn(&str) -> Option<&'a Field>,
) -> Result<Config, EncodingError> {
    let mut config = Config::default();
    for (name, value) in terms.iter() {
        let Some(field) = field(name) else {
            return Err(EncodingError::NoField(name.to_owned()));
        };
        let bits = field.bits();
        if value & !mask(bits) != 0 {
            let name = name.to_owned();
            return Err(EncodingError::TooWide { name, value, bits });
        }
        field.put(value, &mut config);
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn field(text: &str) -> Field {
        Field::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_value_is_split_over_the_runs_of_its_field() {
        let (event, umask) = (field("config:0-7\n"), field("config:8-15,32-63\n"));
        let fields = |name: &str| match name {
            "event" => Some(&event),
            "umask" => Some(&umask),
            _ => None,
        };
        let terms = Terms::parse("event=0x35,umask=0x10c8178201").unwrap();
        // The result of perf 7.2 for the same terms and files.
        let config = encode(&terms, fields).unwrap();
        assert_eq!(config, Config([0x10c8_1782_0000_0135, 0, 0, 0]));
        let wide = Terms::parse("event=0x100").unwrap();
        let said = encode(&wide, fields).unwrap_err().to_string();
        assert_eq!(said, "event=0x100 does not fit its 8 bits here");
        let unknown = Terms::parse("offcore_rsp=1").unwrap();
        assert_eq!(
            encode(&unknown, fields),
            Err(EncodingError::NoField("offcore_rsp".into()))
        );
    }

    #[test]
    fn formats_that_no_kernel_writes_are_refused() {
        for bad in [
            "",
            "config",
            "config:",
            "config4:0",
            "config:64",
            "config:7-0",
            "config:0-7,3",
            "config:-1",
            "config:0-",
            "config :0",
            "config:0x3",
            "\u{1b}[2J",
        ] {
            assert!(Field::parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert_eq!(field("config1:0-63").bits(), 64);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, text in "config[1-3]?:([0-9]{1,2}-?,?){0,6}") {
            let _ = (Field::parse(&bytes), Field::parse(text.as_bytes()));
        }

        #[test]
        fn what_was_put_is_there_and_nothing_else(first in 0u32..64, width in 1u32..64, low in 0u32..32, value: u64) {
            let last = (first + width).min(63);
            let text = if low < first { format!("config2:{low},{first}-{last}") } else { format!("config2:{first}-{last}") };
            let field = field(&text);
            let value = value & mask(field.bits());
            let mut config = Config::default();
            field.put(value, &mut config);
            let number = config.0[2];
            let back = if low < first { (number >> low & 1) | (number >> first).checked_shl(1).unwrap_or(0) } else { number >> first };
            prop_assert_eq!(back, value);
            prop_assert_eq!(config, Config([0, 0, number, 0]));
            field.put(0, &mut config);
            prop_assert_eq!(config, Config::default());
        }
    }
}
