// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is said of things that come and go: once for each time, and no more once a thing has come and gone so
//! often that the log would have nothing else. Memory of it is bounded.

use std::collections::BTreeMap;

/// How often one thing is spoken of.
const TIMES: u32 = 6;
const THINGS: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Said {
    times: BTreeMap<String, u32>,
}

impl Said {
    /// The sentence as it is to be said, if it is.
    pub(super) fn say(&mut self, thing: &str, sentence: String) -> Option<String> {
        if self.times.len() >= THINGS && !self.times.contains_key(thing) {
            return None;
        }
        let times = self.times.entry(thing.to_owned()).or_default();
        *times = times.saturating_add(1);
        match *times {
            TIMES => Some(format!(
                "{sentence} (it comes and goes; no more is said of it)"
            )),
            more if more > TIMES => None,
            _ => Some(sentence),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_and_goes_without_end_is_not_spoken_of_without_end() {
        let mut said = Said::default();
        let mut say = |thing: &str| said.say(thing, "came".into());
        let all: Vec<String> = (0..1000).filter_map(|_| say("cxl1")).collect();
        assert_eq!(all.len(), TIMES as usize);
        assert!(all[TIMES as usize - 1].contains("no more is said"));
        assert_eq!(say("cxl2").as_deref(), Some("came"));
        let others = (0..1000).filter_map(|n| say(&format!("mem{n}"))).count();
        assert_eq!(others, THINGS - 2);
        assert_eq!(said.times.len(), THINGS);
    }
}
