// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of events as perf prints them: `cycles:u`, `uncore_cha_5/UNC_CHA_CLOCKTICKS/`,
//! `cpu/event=0x3c,umask=0x0/k`, `unc_cha_clockticks [uncore_cha_5]`.

/// A name in its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventName<'a> {
    /// The PMU, where the name says it.
    pub pmu: Option<&'a str>,
    /// The event's own name, or terms such as `event=0x3c`.
    pub inside: &'a str,
    /// Letters behind the name: `u` counts in user mode only.
    pub modifiers: &'a str,
}

/// Takes a name apart.
pub fn event_name(text: &str) -> EventName<'_> {
    let text = text.trim();
    let bracket = text
        .strip_suffix(']')
        .and_then(|rest| rest.rsplit_once(" ["));
    let (text, bracket) = bracket.map_or((text, None), |(name, pmu)| (name, Some(pmu)));
    if let Some((pmu, rest)) = text.split_once('/') {
        let (inside, modifiers) = rest.rsplit_once('/').unwrap_or((rest, ""));
        let modifiers = modifiers.trim_start_matches(':');
        return EventName {
            pmu: Some(pmu),
            inside,
            modifiers,
        };
    }
    // A maker's name has no colon, but for modifiers behind the last one.
    let is_modifiers = |m: &str| !m.is_empty() && m.bytes().all(|b| b"ukhGHpPSDWeIbR".contains(&b));
    let (inside, modifiers) = match text.rsplit_once(':') {
        Some((name, modifiers)) if is_modifiers(modifiers) => (name, modifiers),
        _ => (text, ""),
    };
    EventName {
        pmu: bracket,
        inside,
        modifiers,
    }
}

impl EventName<'_> {
    /// The number of the PMU, where there are several of its kind.
    pub fn pmu_number(&self) -> Option<u32> {
        let (_, number) = self.pmu?.rsplit_once('_')?;
        number.parse().ok()
    }

    /// Whether it counts in some modes only.
    pub fn is_partial(&self) -> bool {
        self.modifiers.contains(['u', 'k', 'h', 'G', 'H'])
    }
}
