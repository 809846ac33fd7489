// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What keys do.

use super::model::Model;
use crate::recordings::replay_screen::Wish;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Longest filter; no name is longer on the screen.
const FILTER_MAX_CHARS: usize = 100;

/// What else is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    GoOn,
    Quit,
    /// Move through the recording.
    Wish(Wish),
}

pub fn take(model: &mut Model, key: KeyEvent) -> Act {
    if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
        return Act::Quit;
    }
    if model.help {
        model.help = false;
        return match key.code {
            KeyCode::Char('q') => Act::Quit,
            _ => Act::GoOn,
        };
    }
    if model.typing {
        type_filter(model, key.code);
        return Act::GoOn;
    }
    if model.is_recorded
        && let Some(wish) = wish(&mut model.paused, key.code)
    {
        return Act::Wish(wish);
    }
    match key.code {
        KeyCode::Esc if !model.filter().is_empty() => model.set_filter(String::new()),
        KeyCode::Char('q') | KeyCode::Esc => return Act::Quit,
        KeyCode::Char('s') => model.sort_next(),
        KeyCode::Char('t') => model.toggle_list(),
        KeyCode::Char('/') => model.typing = true,
        KeyCode::Char('p' | ' ') => model.paused = !model.paused,
        KeyCode::Char('?' | 'h') => model.help = true,
        KeyCode::Up | KeyCode::Char('k') => model.select(-1),
        KeyCode::Down | KeyCode::Char('j') => model.select(1),
        KeyCode::PageUp => model.select(-10),
        KeyCode::PageDown => model.select(10),
        KeyCode::Home => model.select(isize::MIN),
        KeyCode::End => model.select(isize::MAX),
        KeyCode::Left => model.fold(),
        KeyCode::Right => model.unfold(),
        KeyCode::Enter => model.fold_or_unfold(),
        KeyCode::Char('-') => model.fold_all(),
        KeyCode::Char('+' | '=') => model.unfold_all(),
        _ => {}
    }
    Act::GoOn
}

/// Through a recording, which may be paused.
pub fn wish(paused: &mut bool, key: KeyCode) -> Option<Wish> {
    let step = |back| Wish::Step { back };
    let wish = match key {
        KeyCode::Char('p' | ' ') => Wish::Pause(!*paused),
        KeyCode::Char('.') => step(false),
        KeyCode::Char(',') => step(true),
        KeyCode::Char('[') => Wish::By(-10_000),
        KeyCode::Char(']') => Wish::By(10_000),
        KeyCode::Char('{') => Wish::By(-60_000),
        KeyCode::Char('}') => Wish::By(60_000),
        KeyCode::Char('g') => Wish::Start,
        KeyCode::Char('G') => Wish::End,
        _ => return None,
    };
    match wish {
        Wish::Pause(now) => *paused = now,
        Wish::Step { .. } => *paused = true,
        _ => {}
    }
    Some(wish)
}

fn type_filter(model: &mut Model, key: KeyCode) {
    let mut filter = model.filter().to_owned();
    model.typing = typed(&mut filter, key);
    model.set_filter(filter);
}

/// Takes a key into a filter; false where it ends the typing.
pub fn typed(filter: &mut String, key: KeyCode) -> bool {
    match key {
        KeyCode::Enter => return false,
        KeyCode::Esc => {
            filter.clear();
            return false;
        }
        KeyCode::Backspace => {
            filter.pop();
        }
        KeyCode::Char(c) if filter.chars().count() < FILTER_MAX_CHARS => filter.push(c),
        _ => {}
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::model::Sort;
    use super::super::testing::snapshot;
    use super::*;

    fn press(model: &mut Model, code: KeyCode) -> Act {
        take(model, KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn model() -> Model {
        let mut model = Model::default();
        model.add(snapshot(0, 100.0));
        model
    }

    fn labels(model: &Model) -> Vec<&str> {
        model.rows().iter().map(|row| row.label.trim()).collect()
    }

    #[test]
    fn keys_do_what_the_help_says() {
        let mut model = model();
        let mut press = |code| press(&mut model, code);
        assert_eq!(press(KeyCode::Char('?')), Act::GoOn);
        // Any key closes the help and does nothing else.
        assert_eq!(press(KeyCode::Char('p')), Act::GoOn);
        for key in [KeyCode::Char('s'), KeyCode::Char('p'), KeyCode::Down] {
            assert_eq!(press(key), Act::GoOn);
        }
        assert_eq!(press(KeyCode::Char('.')), Act::GoOn, "not a recording");
        assert_eq!(press(KeyCode::Char('q')), Act::Quit);
        assert_eq!(
            (model.sort(), model.paused, model.help),
            (Sort::Cpu, true, false)
        );
        assert_eq!(model.selected(), 1);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(take(&mut model, interrupt), Act::Quit);
    }

    #[test]
    fn the_tree_is_folded_from_where_one_stands() {
        let mut model = model();
        let all = model.rows().len();
        assert_eq!(labels(&model)[0], "▾ /system.slice");
        model.select(1);
        // From a leaf to its parent, and then that is folded.
        press(&mut model, KeyCode::Left);
        assert_eq!(model.selected(), 0);
        press(&mut model, KeyCode::Left);
        assert_eq!(labels(&model)[0], "▸ /system.slice");
        assert_eq!(model.rows().len(), all - 2);
        press(&mut model, KeyCode::Right);
        assert_eq!(model.rows().len(), all);
        press(&mut model, KeyCode::Char('-'));
        assert_eq!(model.rows().len(), all - 2);
        press(&mut model, KeyCode::Enter);
        assert_eq!(model.rows().len(), all);
        press(&mut model, KeyCode::Char('t'));
        assert_eq!(model.rows().len(), all - 1, "a list has no inner cgroups");
    }

    #[test]
    fn a_workload_is_opened_and_closed() {
        let mut model = model();
        let all = model.rows().len();
        model.select(1);
        for (open, close) in [
            (KeyCode::Right, KeyCode::Left),
            (KeyCode::Enter, KeyCode::Enter),
        ] {
            press(&mut model, open);
            // Eight are named, and the others are one line.
            assert_eq!(model.rows().len(), all + 9);
            assert_eq!(labels(&model)[2], "4000 fio");
            press(&mut model, KeyCode::Down);
            assert_eq!(press(&mut model, KeyCode::Right), Act::GoOn);
            assert_eq!(model.rows().len(), all + 9, "nothing is in a process");
            press(&mut model, KeyCode::Left);
            assert_eq!(model.selected(), 1);
            press(&mut model, close);
            assert_eq!(model.rows().len(), all);
        }
    }

    #[test]
    fn parts_add_up_to_the_workload() {
        let mut model = model();
        model.select(1);
        press(&mut model, KeyCode::Right);
        let rates = model.rows()[2..11].iter().filter_map(|row| row.bandwidth);
        let sum: f64 = rates.map(weir_core::BytesPerSec::get).sum();
        let whole = model.rows()[1].bandwidth.unwrap().get();
        assert!((sum / whole - 1.0).abs() < 1e-9, "{sum} of {whole}");
    }

    #[test]
    fn a_filter_is_typed() {
        let mut model = model();
        press(&mut model, KeyCode::Char('/'));
        for c in "LIGHTq".chars() {
            press(&mut model, KeyCode::Char(c));
        }
        assert!(model.rows().is_empty());
        press(&mut model, KeyCode::Backspace);
        assert_eq!(labels(&model), ["/system.slice/light.service"]);
        press(&mut model, KeyCode::Enter);
        assert!(!model.typing && model.filter() == "LIGHT");
        // The first takes the filter away, the second ends.
        assert_eq!(press(&mut model, KeyCode::Esc), Act::GoOn);
        assert!(model.rows().len() > 4);
        assert_eq!(press(&mut model, KeyCode::Esc), Act::Quit);
    }

    #[test]
    fn keys_that_move_through_a_recording_are_wishes() {
        let mut model = model();
        model.is_recorded = true;
        let mut press = |c| press(&mut model, KeyCode::Char(c));
        assert_eq!(press('p'), Act::Wish(Wish::Pause(true)));
        assert_eq!(press('p'), Act::Wish(Wish::Pause(false)));
        assert_eq!(press('['), Act::Wish(Wish::By(-10_000)));
        assert_eq!(press('}'), Act::Wish(Wish::By(60_000)));
        assert_eq!(press('g'), Act::Wish(Wish::Start));
        assert_eq!(press('G'), Act::Wish(Wish::End));
        assert_eq!(press(','), Act::Wish(Wish::Step { back: true }));
        assert!(model.paused);
    }
}
