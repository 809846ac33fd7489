// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Windows taken together, with what is made of them once for all subjects.

use super::super::scene::Scene;
use super::places::{RuleRun, ScenePlaces};
use crate::culprit::Waits;
use crate::findings::RuleOutcome;
use crate::quality::Refusal;
use crate::stalls::{StallSplit, stalls};
use crate::window_file::WindowFile;
use weir_core::{Nanos, Window};

/// Spans that a subject's rules look at. More windows are taken together.
const SPANS_MAX: usize = 60;

/// Windows to take together, so that there are at most so many spans.
pub fn windows_a_span(windows: usize, spans_max: usize) -> usize {
    windows.div_ceil(spans_max).max(1)
}

/// Windows taken together, with what is made of them once.
#[derive(Debug)]
pub struct Span {
    scene: Scene,
    places: ScenePlaces,
    /// The same of each socket of several.
    sockets: Vec<ScenePlaces>,
    pub(super) first: usize,
    pub(super) windows: usize,
    pub(super) from: Option<Nanos>,
}

impl Span {
    /// The span of these windows of the file, of which the first has this place.
    fn new(file: &WindowFile, windows: &[Window], first: usize, idle: Option<&Scene>) -> Span {
        let scene = Scene::new(windows, &file.header);
        let begin = windows.first().filter(|window| window.length().is_some());
        let of_socket = |socket: &Scene| ScenePlaces::new(socket, idle.map(|all| all.like(socket)));
        Span {
            places: ScenePlaces::new(&scene, idle),
            sockets: scene.sockets().iter().map(of_socket).collect(),
            scene,
            first,
            windows: windows.len(),
            from: begin.map(|window| window.from),
        }
    }

    pub fn whole(file: &WindowFile, idle: Option<&Scene>) -> Span {
        Span::new(file, &file.windows, 0, idle)
    }

    pub fn of(file: &WindowFile, first: usize, windows: usize, idle: Option<&Scene>) -> Span {
        let own = file.windows.get(first..first + windows).unwrap_or_default();
        Span::new(file, own, first, idle)
    }

    /// Spans of all windows: each window, or as many together as give [`SPANS_MAX`] spans.
    pub fn all(file: &WindowFile, idle: Option<&Scene>) -> Vec<Span> {
        let length = windows_a_span(file.windows.len(), SPANS_MAX);
        let spans = file.windows.chunks(length).enumerate();
        let span =
            |(place, chunk): (usize, &[Window])| Span::new(file, chunk, place * length, idle);
        spans.map(span).collect()
    }

    pub fn scene(&self) -> &Scene {
        &self.scene
    }

    /// Waits at the stages that workloads share: those of each socket, where it is known which workloads run
    /// there.
    pub fn waits(&self) -> Result<Waits, Refusal> {
        let sockets = self.scene.sockets().iter().zip(&self.sockets);
        let known = sockets.filter(|(scene, _)| scene.has_workloads_of_its_own());
        let known =
            known.filter_map(|(scene, places)| Some((scene.socket()?, places.waits.clone().ok()?)));
        let known: Vec<(u32, Waits)> = known.collect();
        if known.is_empty() {
            self.places.waits.clone()
        } else {
            Ok(Waits::of_sockets(known))
        }
    }

    pub fn stalls(&self, name: Option<&str>) -> Result<StallSplit, Refusal> {
        stalls(&self.scene.of(name).sources(name))
    }

    /// What each rule says of a subject: on its socket, if it has one.
    pub(super) fn outcomes(&self, name: Option<&str>, idle: Option<&Scene>) -> Vec<RuleOutcome> {
        let scene = self.scene.of(name);
        let sockets = self.scene.sockets().iter().zip(&self.sockets);
        let mut own = sockets.filter(|(socket, _)| std::ptr::eq(*socket, scene));
        let run = RuleRun {
            scene,
            places: own.next().map_or(&self.places, |(_, places)| places),
            idle: idle.map(|idle| idle.like(scene)),
            name,
        };
        run.outcomes()
    }
}
