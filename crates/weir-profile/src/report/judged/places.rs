// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules at single places, which they name, where counts tell these apart.

use super::super::scene::Scene;
use super::MACHINE;
use crate::culprit::{Sharer, Waits};
use crate::figure::places::{PlaceKind, place_words};
use crate::figure::sources::Sources;
use crate::findings::{Finding, RULES, Rule, RuleOutcome, View, is_felt};
use crate::quality::Refusal;
use crate::stalls::stalls;
use weir_core::window::CountScope;
use weir_core::window::role::Stage;

/// Waits of a scene, and at each of its places of which there are several.
#[derive(Debug)]
pub(super) struct ScenePlaces {
    /// Waits at the stages that workloads share.
    pub(super) waits: Result<Waits, Refusal>,
    places: Vec<(CountScope, Result<Waits, Refusal>)>,
}

impl ScenePlaces {
    pub(super) fn new(scene: &Scene, idle: Option<&Scene>) -> ScenePlaces {
        let places = scene.places();
        ScenePlaces {
            waits: scene.waits(idle),
            places: places
                .map(|place| (place, scene.waits_at(place, idle)))
                .collect(),
        }
    }
}

/// A subject, before all rules.
pub(super) struct RuleRun<'a> {
    /// What is counted where it runs.
    pub(super) scene: &'a Scene,
    pub(super) places: &'a ScenePlaces,
    /// The same place on the idle machine.
    pub(super) idle: Option<&'a Scene>,
    /// The workload; nothing for the machine.
    pub(super) name: Option<&'a str>,
}

impl<'a> RuleRun<'a> {
    /// What each rule says of it.
    pub(super) fn outcomes(&self) -> Vec<RuleOutcome> {
        let (name, scene) = (self.name, self.scene);
        let (stalls, sharers) = (stalls(&scene.sources(name)), scene.sharers());
        let view = View {
            name: name.unwrap_or(MACHINE),
            counts: scene.counts(name),
            idle: self.idle.map(|idle| idle.counts(name)),
            sources: scene.sources(name),
            idle_sources: self.idle.map(|idle| idle.sources(name)),
            stalls: stalls.as_ref(),
            waits: self.places.waits.as_ref(),
            sharers: &sharers,
            place: None,
        };
        let outcome = |rule: &Rule| match self.found_at(rule, view) {
            Some(outcome) => outcome,
            None => (rule.check)(view),
        };
        RULES.iter().map(outcome).collect()
    }

    /// What a rule finds at single places, of the first kind of places that has the counts: these are named.
    /// Nothing where places lack the counts. A place at which others wait, and not the workload, is none of
    /// its.
    fn found_at(&self, rule: &Rule, view: View) -> Option<RuleOutcome> {
        for (kind, stage) in rule.places {
            let places = self.places.places.iter();
            let own = places.filter(|(place, _)| PlaceKind::of(*place) == Some(*kind));
            let said: Vec<(CountScope, RuleOutcome)> = own
                .filter_map(|(place, waits)| {
                    let sharers = self.scene.sharers_at(*place);
                    let view = self.view_at(view, *place, waits, &sharers)?;
                    Some((*place, self.outcome_at(rule, view, *stage)))
                })
                .collect();
            let is_blind = |(_, outcome): &(CountScope, RuleOutcome)| {
                matches!(outcome, RuleOutcome::CannotTell { .. })
            };
            let blind = said.iter().filter(|one| is_blind(one)).count();
            if blind < said.len() {
                let is_known = blind == 0;
                let found = named(said, self.name).map(RuleOutcome::Found);
                return found.or(is_known.then_some(RuleOutcome::NotFound));
            }
        }
        None
    }

    /// What a rule says at one place. A workload must wait there itself.
    fn outcome_at(&self, rule: &Rule, view: View, stage: Stage) -> RuleOutcome {
        let is_workload = self.name.is_some();
        match (rule.check)(view) {
            RuleOutcome::Found(_) if is_workload && is_felt(view, stage) == Some(false) => {
                RuleOutcome::NotFound
            }
            said => said,
        }
    }

    /// The same view with counts of one place alone of its kind.
    fn view_at<'v>(
        &'v self,
        view: View<'v>,
        place: CountScope,
        waits: &'v Result<Waits, Refusal>,
        sharers: &'v [Sharer<'v>],
    ) -> Option<View<'v>> {
        let machine = self.scene.at(place)?;
        let quiet = self.idle.and_then(|idle| idle.at(place));
        let is_machine = self.name.is_none();
        Some(View {
            counts: if is_machine { machine } else { view.counts },
            idle: if is_machine { quiet } else { view.idle },
            sources: Sources {
                machine,
                ..view.sources
            },
            idle_sources: quiet.and_then(|machine| {
                Some(Sources {
                    machine,
                    ..view.idle_sources?
                })
            }),
            waits: match PlaceKind::of(place) {
                // What waits at one port of several is not counted; how busy its link is, is.
                Some(PlaceKind::Port) => view.waits,
                _ => waits.as_ref(),
            },
            sharers,
            // A workload on this socket has no other.
            place: Some(place)
                .filter(|place| self.scene.socket().map(CountScope::Socket) != Some(*place)),
            ..view
        })
    }
}

/// The finding of the place that it concerns most, with all places at which there is one.
fn named(said: Vec<(CountScope, RuleOutcome)>, name: Option<&str>) -> Option<Finding> {
    let all = said.len();
    let found = said.into_iter().filter_map(|(place, said)| match said {
        RuleOutcome::Found(finding) => Some((place, finding)),
        _ => None,
    });
    let (places, found): (Vec<CountScope>, Vec<Finding>) = found.unzip();
    let weight = |finding: &Finding| finding.time_ratio.unwrap_or(0.0);
    let most = found
        .into_iter()
        .rev()
        .max_by(|a, b| weight(a).total_cmp(&weight(b)))?;
    let words: Vec<String> = places.iter().map(|place| place_words(*place)).collect();
    let mut finding = Finding {
        what: format!("{}, at {}", most.what, words.join(", ")),
        ..most
    };
    let is_of_workloads = name.is_some() || !finding.because_of.is_empty();
    if is_of_workloads && places.len() < all {
        let which = "from which of these places the lines of a workload come was not counted";
        finding.caveat = Some(match finding.caveat {
            None => which.to_owned(),
            Some(caveat) => format!("{caveat}; {which}"),
        });
    }
    finding.places = places;
    Some(finding)
}
