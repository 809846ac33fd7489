// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is said of each window alone. Windows are looked at one after the other, and of each only what is
//! said of it stays: sums by role, with their quality, are several times as large as the counts that they are
//! made of.

use super::scene::Scene;
use super::{Figures, Options, figures};
use crate::path_map::{self, HiddenFall};
use crate::window_file::WindowFile;

/// What is said of a subject in each window.
#[derive(Debug, Default)]
pub struct EachWindow {
    /// Its figures, where asked for.
    pub figures: Vec<Figures>,
    /// Windows of which the one before had more lines from CXL memory, although shares rose: their numbers,
    /// from 1.
    pub hidden_falls: Vec<(usize, HiddenFall)>,
}

impl EachWindow {
    /// Windows of each subject of `names`, in that order.
    pub fn all(
        file: &WindowFile,
        options: &Options,
        idle: Option<&Scene>,
        names: &[Option<String>],
    ) -> Vec<EachWindow> {
        let mut all: Vec<EachWindow> = names.iter().map(|_| EachWindow::default()).collect();
        let mut before: Option<Scene> = None;
        for (place, window) in file.windows.iter().enumerate() {
            let scene = Scene::new(std::slice::from_ref(window), &file.header);
            for (subject, name) in all.iter_mut().zip(names) {
                let name = name.as_deref();
                let fall = before.as_ref().and_then(|before| {
                    path_map::hidden_fall(before.counts(name), scene.counts(name))
                });
                subject
                    .hidden_falls
                    .extend(fall.map(|fall| (place + 1, fall)));
                if options.each {
                    let own = figures(&scene, file, options, idle, name);
                    subject.figures.push(own);
                }
            }
            before = Some(scene);
        }
        all
    }
}
