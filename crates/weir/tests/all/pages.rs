// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages that readers follow: what they quote of simulated runs is what these runs print.

use std::path::Path;
use std::process::Command;

/// Pages with runs of the simulator, from one seed each.
const PAGES: [&str; 2] = ["tutorial/getting-started.md", "how-to/simulate.md"];

/// A command with what is quoted of its output: runs of lines, between which `...` stands for others.
#[derive(Debug, Default, PartialEq)]
struct Quoted {
    words: Vec<String>,
    parts: Vec<Vec<String>>,
}

/// Commands of a block, `$ weir …`. Other programs are left out, with what they print.
fn commands(block: &str) -> Vec<Quoted> {
    let mut all: Vec<Quoted> = Vec::new();
    let mut is_ours = false;
    for line in block.lines() {
        if let Some(command) = line.strip_prefix("$ ").or(line.strip_prefix("# ")) {
            let command = command.split(" #").next().unwrap_or_default();
            is_ours = line.starts_with("$ weir ");
            if is_ours {
                let words = command.split_whitespace().skip(1).map(str::to_owned);
                all.push(Quoted {
                    words: words.collect(),
                    parts: vec![Vec::new()],
                });
            }
        } else if let (true, Some(last)) = (is_ours, all.last_mut()) {
            match (line.trim(), last.parts.last_mut()) {
                ("...", _) => last.parts.push(Vec::new()),
                (_, Some(part)) => part.extend(line.split_whitespace().map(str::to_owned)),
                (_, None) => {}
            }
        }
    }
    for command in &mut all {
        command.parts.retain(|part| !part.is_empty());
    }
    all
}

fn blocks(page: &str) -> impl Iterator<Item = &str> {
    let blocks = page.split("```console\n").skip(1);
    blocks.map(|rest| rest.split("\n```").next().unwrap_or_default())
}

/// The first of these parts that does not stand in the output behind those before it. Lines may be broken
/// elsewhere.
fn missing<'a>(parts: &'a [Vec<String>], output: &str) -> Option<&'a [String]> {
    let said: Vec<&str> = output.split_whitespace().collect();
    let mut from = 0;
    for part in parts {
        let left = said.get(from..).unwrap_or_default();
        let Some(at) = left.windows(part.len()).position(|words| words == part) else {
            return Some(part);
        };
        from += at + part.len();
    }
    None
}

fn output(words: &[String], folder: &Path) -> String {
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = weir.args(words).current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_pages_quote_of_simulated_runs_is_what_these_print() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for name in PAGES {
        let page = std::fs::read_to_string(docs.join(name)).unwrap();
        let mut quoted = 0;
        for block in blocks(&page) {
            let commands = commands(block);
            if commands.iter().all(|command| command.parts.is_empty()) {
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            for command in commands {
                let said = output(&command.words, folder.path());
                let lost = missing(&command.parts, &said).map(|part| part.join(" "));
                assert_eq!(lost, None, "docs/{name}: {:?} says:\n{said}", command.words);
                quoted += command.parts.len();
            }
        }
        assert!(quoted > 0, "docs/{name} quotes nothing");
    }
}

#[test]
fn quotes_are_found_in_their_order_only() {
    let block = "# make x\nmade\n$ weir sim step      # a comment\na  1\n...\nb 2\n  c 3\n$ weir-lab x\ny\n$ weir top";
    let found = commands(block);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].words, ["sim", "step"]);
    let parts = [vec!["a", "1"], vec!["b", "2", "c", "3"]];
    assert_eq!(found[0].parts, parts);
    assert_eq!(found[1], commands("$ weir top")[0]);
    let parts = &found[0].parts;
    assert_eq!(missing(parts, "x\na 1\ny\nb 2 c\n3"), None);
    assert_eq!(missing(parts, "b 2 c 3\na 1"), Some(&parts[1][..]));
    assert_eq!(missing(parts, "a 1 b 2 x c 3"), Some(&parts[1][..]));
}
