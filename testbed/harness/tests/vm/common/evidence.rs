// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The findings of a soak question are written to `docs/evidence/vm-NAME.md` by the run itself: when, of
//! which commit, by which command, with what figures. A new run replaces the file.

use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

pub struct Evidence {
    name: &'static str,
    figures: Vec<String>,
}

impl Evidence {
    /// Evidence for the question with this name; its test is called `soak_NAME`.
    pub fn of(name: &'static str) -> Self {
        let figures = Vec::new();
        Evidence { name, figures }
    }

    pub fn say(&mut self, figure: String) {
        println!("{figure}");
        self.figures.push(figure);
    }

    /// Writes the file, whatever the verdict is, and hands the verdict on.
    ///
    /// # Errors
    /// The verdict's, or the file cannot be written.
    pub fn write(self, verdict: Result<()>) -> Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let dir = root.join("docs/evidence");
        std::fs::create_dir_all(&dir)?;
        let path = dir.join(format!("vm-{}.md", self.name));
        let text = self.text(&root, &verdict)?;
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        verdict
    }

    fn text(&self, root: &Path, verdict: &Result<()>) -> Result<String> {
        let name = self.name;
        let date = said(Command::new("date").args(["-u", "+%F"]))?;
        let result = match verdict {
            Ok(()) => "passed".to_owned(),
            Err(why) => format!("failed: {why:#}").replace('\n', " "),
        };
        let mut text = format!(
            "# Soak: {name}\n\n| | |\n|---|---|\n| date | {date} |\n| commit | {} |\n\
             | command | `cargo test --release -p weir-testbed --test vm -- --ignored soak_{name}` |\n\
             | result | {result} |\n",
            commit(root)?
        );
        for (place, figure) in self.figures.iter().enumerate() {
            let before = if place == 0 { "\n" } else { "" };
            writeln!(text, "{before}- {figure}")?;
        }
        Ok(text)
    }
}

/// The commit, and whether other files than evidence differ from it.
fn commit(root: &Path) -> Result<String> {
    let git = |arguments: &[&str]| said(Command::new("git").arg("-C").arg(root).args(arguments));
    let hash = git(&["rev-parse", "--short=12", "HEAD"])?;
    let status = ["status", "--porcelain", "--untracked-files=no"];
    let changed = git(&[&status[..], &["--", ":!docs/evidence"]].concat())?;
    let and = if changed.is_empty() {
        ""
    } else {
        ", with changes"
    };
    Ok(hash + and)
}

fn said(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
