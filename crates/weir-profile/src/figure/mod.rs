// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A figure with what is known of its quality, or the reason why there is none.

pub mod counts;
pub mod places;
pub mod quality;
pub mod sources;

use quality::Refusal;
use serde::Serialize;
use weir_core::window::CountProvenance;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Lines of 64 bytes.
    Lines,
    /// Retired load or store instructions.
    Instructions,
    Requests,
    LinesPerSec,
    RequestsPerSec,
    InstructionsPerSec,
    /// Cycles of the stage's own clock.
    Cycles,
    Ns,
    /// Entries of a queue, on average.
    Entries,
    /// A part of a whole, or how many times as much.
    Ratio,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Arithmetic on counts.
    Counted,
    /// A count of several, shared out by another count.
    Apportioned,
    /// Made by a model.
    Modelled,
}

impl Class {
    /// The unit as screens spell it.
    pub fn word(self) -> &'static str {
        match self {
            Class::Counted => "counted",
            Class::Apportioned => "apportioned",
            Class::Modelled => "modelled",
        }
    }

    fn of(provenance: CountProvenance) -> Class {
        match provenance {
            CountProvenance::Apportioned => Class::Apportioned,
            CountProvenance::Modelled => Class::Modelled,
            _ => Class::Counted,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    pub value: f64,
    pub unit: Unit,
    pub class: Class,
    /// The weakest provenance of its counts.
    pub provenance: CountProvenance,
    /// Part of the time for which the count ran that ran least; nothing where no time is known.
    pub running_ratio: Option<f64>,
    /// The whole that a share is a part of; other figures have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_of: Option<String>,
    /// What a reader must know beside it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A figure, or why there is none.
pub type Answer = Result<Figure, Refusal>;

impl Figure {
    pub fn new(value: f64, unit: Unit, provenance: CountProvenance, running: Option<f64>) -> Self {
        Figure {
            value,
            unit,
            class: Class::of(provenance),
            provenance,
            running_ratio: running,
            share_of: None,
            notes: Vec::new(),
        }
    }

    /// A figure with another value and unit, and the quality of both.
    #[must_use]
    pub fn and(&self, other: &Figure, value: f64, unit: Unit) -> Self {
        let mut notes = self.notes.clone();
        notes.extend(
            other
                .notes
                .iter()
                .filter(|n| !self.notes.contains(n))
                .cloned(),
        );
        Figure {
            value,
            unit,
            class: self.class.max(other.class),
            provenance: self.provenance.max(other.provenance),
            running_ratio: least(self.running_ratio, other.running_ratio),
            share_of: None,
            notes,
        }
    }

    /// This part of `whole`, which `named` says.
    ///
    /// # Errors
    /// The whole is 0.
    pub fn share_of(&self, whole: &Figure, named: &str) -> Answer {
        if whole.value <= 0.0 {
            return Err(Refusal::NoRequests {
                what: named.to_owned(),
            });
        }
        let mut share = self.and(whole, self.value / whole.value, Unit::Ratio);
        share.share_of = Some(named.to_owned());
        Ok(share)
    }

    #[must_use]
    pub fn noting(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// `counted`, with what weakens it: other provenances, and less than all of the time.
    pub fn quality(&self) -> String {
        let mut text = self.class.word().to_owned();
        let is_plain = Class::of(self.provenance) != Class::Counted
            || self.provenance == CountProvenance::Documented;
        if !is_plain {
            text += &format!(" ({})", self.provenance.word());
        }
        match self.running_ratio {
            Some(ratio) if ratio < 0.995 => {
                text += &format!(", {:.0} % of the time", ratio * 100.0)
            }
            _ => {}
        }
        text
    }
}

fn least(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

/// The sum of figures of one unit; nothing where there are none.
pub fn sum<'a>(figures: impl IntoIterator<Item = &'a Figure>) -> Option<Figure> {
    let mut figures = figures.into_iter();
    let first = figures.next()?.clone();
    Some(figures.fold(first, |sum, one| {
        sum.and(one, sum.value + one.value, sum.unit)
    }))
}

/// Characters of a name that are shown.
const NAME_CHARS_MAX: usize = 120;

/// A name from outside for a screen: letters, digits and signs stay, everything else is spelled out, and a
/// long one loses its end.
pub fn printable(name: &str) -> String {
    printable_within(name, NAME_CHARS_MAX)
}

/// The same of a text of so many characters.
pub fn printable_within(text: &str, chars_max: usize) -> String {
    let mut out = String::new();
    for (place, c) in text.chars().enumerate() {
        if place == chars_max {
            out.push('…');
            break;
        }
        if c.is_alphanumeric() || c.is_ascii_graphic() || c == ' ' {
            out.push(c);
        } else {
            out.extend(c.escape_unicode());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(value: f64, provenance: CountProvenance, running: f64) -> Figure {
        Figure::new(value, Unit::Lines, provenance, Some(running))
    }

    #[test]
    fn a_share_has_the_quality_of_its_worst_part() {
        let part = lines(1.0, CountProvenance::Difference, 1.0);
        let whole = lines(4.0, CountProvenance::Documented, 0.25);
        let share = part.share_of(&whole, "all lines").unwrap();
        assert_eq!((share.value, share.unit), (0.25, Unit::Ratio));
        assert_eq!(share.quality(), "counted (difference), 25 % of the time");
        assert_eq!(share.share_of.as_deref(), Some("all lines"));
        let nothing = lines(0.0, CountProvenance::Documented, 1.0);
        assert!(part.share_of(&nothing, "all lines").is_err());
        let made = lines(1.0, CountProvenance::Modelled, 1.0);
        assert_eq!(made.and(&part, 2.0, Unit::Ns).class, Class::Modelled);
    }

    proptest! {
        #[test]
        fn names_cannot_reach_the_terminal(name in "(?s).{0,300}") {
            let shown = printable(&name);
            prop_assert!(!shown.chars().any(char::is_control));
            prop_assert!(shown.chars().count() <= NAME_CHARS_MAX * 10 + 1);
        }
    }
}
