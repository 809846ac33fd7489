// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One access with the times of all that happens on its way.

use crate::words::{Lane, Opcode, Party, TimedStage};
use std::fmt::Write;

/// Something on the way. Times are ns since the access began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TimedEvent {
    /// A stage ended at this time.
    Passed(TimedStage, f64),
    /// A message was sent, and arrives at the second time.
    Sent(Lane, Opcode, f64, f64),
    Taken(Lane, Opcode, f64),
    Ended(Party, f64),
}

const MIDDLE: usize = 28;
const SIDE: usize = 34;

/// The access as a chart: time, device on the left, messages, host on the right. `party` began it.
pub fn timed_chart(party: Party, events: &[TimedEvent]) -> String {
    let mut text = format!(
        "      ns  {:SIDE$}{:MIDDLE$}  host: cores, LLC, home agent\n",
        "device: accelerator, DCOH", ""
    );
    let mut at = party;
    for event in events {
        match event {
            TimedEvent::Passed(stage, ns) => side(&mut text, at, *ns, stage.name()),
            TimedEvent::Sent(lane, opcode, ns, _) => {
                let words = format!(" {}: {} ", lane.name(), opcode.name());
                let dashes = MIDDLE.saturating_sub(words.chars().count() + 1);
                let line = "─".repeat(dashes);
                let arrow = match lane.taker() {
                    Party::Host => format!("─{words}{line}▶"),
                    Party::Device => format!("◀{line}{words}─"),
                };
                let _ = writeln!(text, "{ns:>8.1}  {:SIDE$}{arrow}", "");
            }
            TimedEvent::Taken(lane, opcode, ns) => {
                at = lane.taker();
                side(&mut text, at, *ns, &format!("takes {}", opcode.name()));
            }
            TimedEvent::Ended(party, ns) => side(&mut text, *party, *ns, "done"),
        }
    }
    text
}

fn side(text: &mut String, party: Party, ns: f64, said: &str) {
    let indent = match party {
        Party::Device => 0,
        Party::Host => SIDE + MIDDLE + 2,
    };
    let _ = writeln!(text, "{ns:>8.1}  {:indent$}{said}", "");
}
