// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/etc/weir.toml` of a package: each key with what its flag says, commented out. Without a change it means
//! what no file means.

use crate::commands::reference_tests::page::{WIDTH, wrapped};
use crate::commands::reference_tests::{commands, settings};
use crate::run::settings::Settings;
use crate::run::settings::args::LoopArgs;
use clap::Command;
use std::path::Path;

const HEAD: &str = "\
# Settings of the service weir (systemctl status weir).
#
# weir observes, and changes nothing, until `limit = true` and a set-point stand here. Check this file with
# `weir doctor --config /etc/weir.toml`. After a change: systemctl reload weir; where the journal says that a
# key needs it, and for the first limit: systemctl restart weir.
#
# A line `#key = value` shows the default, and is without effect. Amounts have a unit: 4GiB/s, 50ms, 40%.
";

/// What stands above a value that is not the default.
const EXAMPLE: &str = "# Not set by default. For example:";

/// What a key is without the file.
#[derive(Clone, Copy)]
enum Initial {
    Default(&'static str),
    /// Nothing; a value that it may have.
    None(&'static str),
}

/// A key above `[controller]`.
const INITIAL: [(&str, Initial); 33] = [
    ("limit", Initial::Default("false")),
    ("set-point", Initial::None("\"8GiB/s\"")),
    ("capacity", Initial::None("\"20GiB/s\"")),
    ("device", Initial::None("[\"node:2\"]")),
    ("policy", Initial::Default("\"max-min\"")),
    ("workloads", Initial::Default("\"cgroup\"")),
    ("backend", Initial::Default("\"cpu-max\"")),
    ("counters", Initial::Default("\"auto\"")),
    ("attribution", Initial::Default("\"auto\"")),
    ("attribution-event", Initial::None("\"sw:page-faults\"")),
    ("probe", Initial::Default("false")),
    ("interval", Initial::Default("\"50ms\"")),
    ("period", Initial::Default("\"20.6ms\"")),
    ("limited-weight", Initial::Default("\"100%\"")),
    (
        "exclude",
        Initial::None("[\"/system.slice/postgresql*\", \"/system.slice/ssh.service\"]"),
    ),
    ("trust-cpu-max", Initial::Default("false")),
    ("limit-domains", Initial::Default("false")),
    (
        "split-delegated",
        Initial::None("[\"*/user@1000.service\"]"),
    ),
    ("duration", Initial::None("\"1h\"")),
    ("json", Initial::Default("false")),
    ("record", Initial::None("\"/var/lib/weir/today.weir\"")),
    ("metrics", Initial::None("\"127.0.0.1:9779\"")),
    ("page", Initial::None("\"127.0.0.1:9780\"")),
    (
        "metrics-token-file",
        Initial::None("\"/etc/weir-metrics.token\""),
    ),
    ("page-token-file", Initial::None("\"/etc/weir-page.token\"")),
    ("push", Initial::None("\"http://127.0.0.1:8428/write\"")),
    ("push-format", Initial::Default("\"influx\"")),
    ("push-interval", Initial::Default("\"10s\"")),
    ("push-ca-file", Initial::None("\"/etc/weir-ca.pem\"")),
    ("push-token-file", Initial::None("\"/etc/weir.token\"")),
    ("log", Initial::Default("\"info\"")),
    ("log-format", Initial::Default("\"auto\"")),
    ("wait-for-devices", Initial::Default("false")),
];

pub fn text() -> String {
    let root = crate::commands::command();
    let run = root.find_subcommand("run").expect("weir run");
    let keys = settings::keys()
        .into_iter()
        .filter(|key| key != "controller");
    let entries: String = keys.map(|key| entry(run, &key)).collect();
    format!("{HEAD}{entries}\n[controller]\n{}", gains())
}

fn entry(run: &Command, key: &str) -> String {
    let flag = run.get_arguments().find(|arg| arg.get_long() == Some(key));
    let flag = flag.unwrap_or_else(|| panic!("{key}: no flag of weir run has this name"));
    let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
    let mut out = format!("\n{}", wrapped("# ", "# ", &help));
    for line in commands::values(flag).lines() {
        out += &format!("# {line}\n");
    }
    let (_, initial) = INITIAL
        .iter()
        .find(|(known, _)| *known == key)
        .unwrap_or_else(|| panic!("{key}: say what it is without the file"));
    out + &match initial {
        Initial::Default(value) => format!("#{key} = {value}\n"),
        Initial::None(value) => format!("{EXAMPLE}\n#{key} = {value}\n"),
    }
}

/// Keys of `[controller]`, out of the table of the reference.
fn gains() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/config.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let (_, from) = page.split_once("\n## [controller]").expect("the section");
    let (table, _) = from.split_once("\n## ").expect("the next section");
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    rows.map(gain).collect()
}

fn gain(row: &str) -> String {
    let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
    let [key, default, allowed, meaning] = cells[..] else {
        panic!("no row of four cells: {row}");
    };
    let key = key.trim_matches('`');
    let about = wrapped("# ", "# ", &format!("{meaning}; allowed: {allowed}"));
    match (key, default) {
        ("weights", _) => {
            format!(
                "\n{about}{EXAMPLE}\n#[controller.weights]\n#\"/system.slice/web.service\" = 400\n"
            )
        }
        (_, "–") => format!("\n{about}{EXAMPLE}\n#{key} = 0.5\n"),
        (_, default) => format!("\n{about}#{key} = {default}\n"),
    }
}

/// The file with the lines in force that show a default.
fn with_defaults_in_force(text: &str) -> String {
    let mut before = "";
    let mut out = String::new();
    for line in text.lines() {
        let setting = line.strip_prefix('#').filter(|rest| rest.contains(" = "));
        let in_force =
            setting.filter(|rest| !rest.starts_with(' ') && !before.starts_with(EXAMPLE));
        out += in_force.unwrap_or(line);
        out.push('\n');
        before = if line.starts_with("#[") {
            EXAMPLE
        } else {
            line
        };
    }
    out
}

/// The examples: each with the table that it stands in.
fn examples(text: &str) -> Vec<String> {
    let parts = text.split(EXAMPLE).skip(1);
    let line = |part: &str| {
        let lines = part
            .lines()
            .skip(1)
            .take_while(|line| line.starts_with('#'));
        let lines: Vec<&str> = lines.filter_map(|line| line.strip_prefix('#')).collect();
        lines.join("\n")
    };
    parts.map(line).collect()
}

fn settings_of(text: &str) -> anyhow::Result<Settings> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("weir.toml");
    std::fs::write(&path, text)?;
    Settings::new(&LoopArgs {
        config: Some(path),
        ..LoopArgs::default()
    })
}

/// Everything that settings say.
fn all_of(text: &str) -> String {
    let settings = settings_of(text).unwrap_or_else(|error| panic!("{error:#} in\n{text}"));
    format!("{settings:#?}")
}

#[test]
fn the_file_and_the_defaults_in_it_are_those_of_the_program() {
    let text = text();
    let without = format!(
        "{:#?}",
        Settings::new(&LoopArgs::default()).expect("defaults")
    );
    assert_eq!(all_of(&text), without);
    let in_force = with_defaults_in_force(&text);
    let settings = in_force
        .lines()
        .filter(|line| !line.starts_with('#') && line.contains(" = "));
    assert!(settings.count() > 20, "{in_force}");
    assert_eq!(all_of(&in_force), without);
    let other = in_force.replacen("\nki_per_sec = 1\n", "\nki_per_sec = 2\n", 1);
    assert_ne!(all_of(&other), without);
}

#[test]
fn each_example_is_taken_and_changes_something() {
    let text = text();
    let without = format!(
        "{:#?}",
        Settings::new(&LoopArgs::default()).expect("defaults")
    );
    let examples = examples(&text);
    assert!(examples.len() > 10, "{examples:?}");
    for example in examples {
        let is_gain = example.starts_with("bandwidth_alpha");
        let table = if is_gain { "[controller]\n" } else { "" };
        let server = match example.split(' ').next() {
            Some("push-token-file" | "push-ca-file") => "push = \"http://127.0.0.1:8428/write\"\n",
            Some("metrics-token-file") => "metrics = \"127.0.0.1:9779\"\n",
            Some("page-token-file") => "page = \"127.0.0.1:9780\"\n",
            _ => "",
        };
        let changed = all_of(&format!("{server}{table}{example}\n"));
        assert_ne!(changed, without, "{example}");
    }
}

#[test]
fn each_key_stands_there_once_with_its_help() {
    let text = text();
    let keys = settings::keys();
    assert_eq!(keys.len(), INITIAL.len() + 1, "{keys:?}");
    for key in keys.iter().filter(|key| *key != "controller") {
        let lines = text.matches(&format!("\n#{key} = ")).count();
        assert_eq!(lines, 1, "{key} in\n{text}");
    }
    assert!(
        text.contains("# Bandwidth to hold on each device"),
        "{text}"
    );
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(WIDTH + 2), "{text}");
}
