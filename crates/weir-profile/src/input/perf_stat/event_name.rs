// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of events as perf prints them: `cycles:u`, `uncore_cha_5/UNC_CHA_CLOCKTICKS/`,
//! `cpu/event=0x3c,umask=0x0/k`, `unc_cha_clockticks [uncore_cha_5]`; and as PerfSpect writes them, with the
//! number of the box behind: `UNC_CHA_CLOCKTICKS.5`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventName<'a> {
    /// The PMU, where the name says it.
    pub pmu: Option<&'a str>,
    /// The event's own name, or terms such as `event=0x3c`.
    pub inside: &'a str,
    /// Letters behind the name: `u` counts in user mode only.
    pub modifiers: &'a str,
    /// The number behind the name of an uncore event. No maker's name ends with one.
    box_number: Option<u32>,
}

pub fn event_name(text: &str) -> EventName<'_> {
    let text = text.trim();
    let bracket = text
        .strip_suffix(']')
        .and_then(|rest| rest.rsplit_once(" ["));
    let (text, bracket) = bracket.map_or((text, None), |(name, pmu)| (name, Some(pmu)));
    if let Some((pmu, rest)) = text.split_once('/') {
        let (inside, modifiers) = rest.rsplit_once('/').unwrap_or((rest, ""));
        let modifiers = modifiers.trim_start_matches(':');
        // All PMUs of a kind have the kind's name: `uncore_cha_*`.
        let kind = pmu.strip_suffix('*').map(|kind| kind.trim_end_matches('_'));
        return EventName {
            pmu: Some(kind.unwrap_or(pmu)),
            inside,
            modifiers,
            box_number: None,
        };
    }
    // A maker's name has no colon, but for modifiers behind the last one.
    let is_modifiers = |m: &str| !m.is_empty() && m.bytes().all(|b| b"ukhGHpPSDWeIbR".contains(&b));
    let (inside, modifiers) = match text.rsplit_once(':') {
        Some((name, modifiers)) if is_modifiers(modifiers) => (name, modifiers),
        _ => (text, ""),
    };
    let numbered = inside.rsplit_once('.').and_then(|(name, number)| {
        let is_number = number.bytes().all(|b| b.is_ascii_digit());
        let is_box = is_number && bracket.is_none() && is_uncore(name);
        is_box.then_some(name).zip(number.parse().ok())
    });
    EventName {
        pmu: bracket,
        inside: numbered.map_or(inside, |(name, _)| name),
        modifiers,
        box_number: numbered.map(|(_, number)| number),
    }
}

impl EventName<'_> {
    /// The number of the PMU, where there are several of its kind.
    pub fn pmu_number(&self) -> Option<u32> {
        self.box_number.or_else(|| {
            let (_, number) = self.pmu?.rsplit_once('_')?;
            number.parse().ok()
        })
    }

    /// Whether it counts in some modes only.
    pub fn is_partial(&self) -> bool {
        self.modifiers.contains(['u', 'k', 'h', 'G', 'H'])
    }

    /// Whether the name stands for all boxes of an uncore PMU: by CPU older perf prints a line for each of
    /// them.
    pub fn is_of_boxes(&self) -> bool {
        let may_be = match self.pmu {
            Some(pmu) => !is_of_cores(pmu),
            None => is_uncore(self.inside),
        };
        may_be && self.pmu_number().is_none()
    }

    /// Whether it can be one of the events that all cores have by a name of the kernel's, such as `cycles`.
    pub fn is_of_cores(&self) -> bool {
        self.pmu.is_none_or(is_of_cores)
    }

    /// Whether two names of an event can count the same occurrence of it, so that their sum counts it twice:
    /// one names all PMUs of which the other names one, and no mode of the one is left out by the other.
    pub fn overlaps(&self, other: &EventName<'_>) -> bool {
        let is_any = |name: &EventName<'_>| name.pmu.is_none_or(|pmu| pmu == "cpu");
        let is_kind_of = |one: &EventName<'_>, other: &EventName<'_>| {
            let (kind, _) = one.pmu?.rsplit_once('_')?;
            one.pmu_number()?;
            Some(other.pmu? == kind)
        };
        let is_apart = |letters: &[char]| {
            let both = [self, other].map(|name| name.modifiers.contains(letters));
            let is_shared = |letter: &char| {
                self.modifiers.contains(*letter) && other.modifiers.contains(*letter)
            };
            both == [true, true] && !letters.iter().any(is_shared)
        };
        let is_same_pmu = self.pmu == other.pmu
            || is_any(self)
            || is_any(other)
            || is_kind_of(self, other) == Some(true)
            || is_kind_of(other, self) == Some(true);
        let numbers = self.pmu_number().zip(other.pmu_number());
        let is_same_box = numbers.is_none_or(|(one, other)| one == other);
        is_same_pmu && is_same_box && !is_apart(&['u', 'k', 'h']) && !is_apart(&['G', 'H'])
    }
}

/// Whether makers name events of uncore PMUs so.
fn is_uncore(event: &str) -> bool {
    ["unc_", "umc_"].iter().any(|prefix| {
        let start = event.get(..prefix.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    })
}

/// PMUs of cores: `cpu`, those of a CPU with two kinds of cores, those of Arm, and the kernel's own.
fn is_of_cores(pmu: &str) -> bool {
    pmu == "cpu" || pmu.starts_with("cpu_") || pmu.contains("_pmuv3") || pmu == "software"
}
