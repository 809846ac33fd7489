// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All figures of a subject in one list, each with its name: for tables of how each is known.

use super::{Figures, Subject};
use crate::culprit::Waits;
use crate::figure::Figure;
use crate::path_map::PathRow;
use crate::quality::Refusal;

/// A figure with its name, or why there is none.
#[derive(Clone, Debug)]
pub struct NamedFigure<'a> {
    /// What kind of figure it is, as `weir profile methods` has it.
    pub group: &'static str,
    pub name: String,
    pub figure: Result<&'a Figure, &'a Refusal>,
}

/// A list that grows.
#[derive(Default)]
struct Named<'a>(Vec<NamedFigure<'a>>);

impl<'a> Named<'a> {
    fn add(
        &mut self,
        group: &'static str,
        name: impl Into<String>,
        figure: &'a Result<Figure, Refusal>,
    ) {
        self.0.push(NamedFigure {
            group,
            name: name.into(),
            figure: figure.as_ref(),
        });
    }

    fn rows(&mut self, group: &'static str, rows: &'a [PathRow]) {
        for row in rows {
            for cell in &row.cells {
                let name = format!("{} from {}", row.path.0.word(), cell.place);
                self.add(group, name, &cell.count);
            }
        }
    }

    fn figures(&mut self, figures: &'a Figures) {
        let map = &figures.path_map;
        self.rows("loads by where they were found", &map.loads);
        self.rows("lines by supplier", &map.lines);
        self.add("lines by supplier", "from CXL memory", &map.cxl_lines);
        self.add("share of CXL memory", "in all lines", &map.cxl_share);
        for path in &map.cxl_by_path {
            let name = format!("in {}", path.path.0.word());
            self.add("share of CXL memory", name, &path.share);
        }
        self.stages(figures);
        match &figures.stalls {
            Err(why) => self.0.push(NamedFigure {
                group: "stalls",
                name: "split of the stalls".into(),
                figure: Err(why),
            }),
            Ok(split) => {
                let all = [
                    ("stalled cycles", &split.measured),
                    ("part of CXL memory", &split.cxl_share),
                ];
                self.0
                    .extend(all.into_iter().map(|(name, figure)| NamedFigure {
                        group: "stalls",
                        name: name.into(),
                        figure: Ok(figure),
                    }));
                self.add("stalls", "stalled part of the time", &split.stalled_ratio);
            }
        }
    }

    fn stages(&mut self, figures: &'a Figures) {
        let stages = &figures.stages;
        for queue in &stages.queues {
            let name = queue.role.to_string();
            self.add("residence, cycles", name.clone(), &queue.residence_cycles);
            self.add("residence", name.clone(), &queue.residence_ns);
            self.add("waiting time", name.clone(), &queue.waiting_ns);
            self.add("requests a second", name.clone(), &queue.requests_per_sec);
            self.add("requests in one such queue", name.clone(), &queue.entries);
            self.add("pressure", name.clone(), &queue.pressure);
            let busy = &queue.entries_while_busy;
            self.add("requests in it while busy", name, busy);
        }
        let before = "mesh and ingress, by difference";
        self.add("residence", before, &stages.before_tor_ns);
        self.add("waiting time", before, &stages.before_tor_waiting_ns);
        for (role, ratio) in &stages.full {
            self.add("full", role.to_string(), ratio);
        }
        for whole in &stages.wholes {
            let name = whole.role.to_string();
            self.add("parts ÷ whole", name.clone(), &whole.covered);
            self.add("share of CXL memory", name, &whole.cxl_share);
        }
    }
}

impl Subject {
    /// All of its figures over all windows.
    pub fn named(&self) -> Vec<NamedFigure<'_>> {
        let mut all = Named::default();
        all.figures(&self.figures);
        for one in &self.what_if {
            all.add("what if", one.otherwise.clone(), &one.speedup);
        }
        all.0
    }
}

impl Waits {
    pub fn named(&self) -> Vec<NamedFigure<'_>> {
        let of = |name: String, figure| NamedFigure {
            group: "waits at shared stages",
            name,
            figure: Ok(figure),
        };
        let stages = self.stages.iter().flat_map(|stage| {
            let rows = stage.rows.iter().map(|row| {
                of(
                    format!("{}: {}", stage.shown(stage.stage), row.workload),
                    &row.waiting_ns,
                )
            });
            let ratio = of(
                format!("{}: waiting ÷ idle residence", stage.shown(stage.stage)),
                &stage.wait_ratio,
            );
            let waiting = of(
                format!("{}: requests that wait", stage.shown(stage.stage)),
                &stage.waiting,
            );
            [ratio, waiting].into_iter().chain(rows).collect::<Vec<_>>()
        });
        stages.collect()
    }
}
