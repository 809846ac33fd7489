// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the screen shows, computed from frames and keys. It has no terminal, so that tests can call all of
//! it.

use super::frame::{LiveFrame, LiveRow};
use crate::top::keys::{Act, typed, wish};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

#[derive(Default)]
pub struct LiveModel {
    /// Nothing before the first.
    pub frame: Option<LiveFrame>,
    /// It is a recording, and keys move through it.
    pub is_recorded: bool,
    /// There is nothing left to count for.
    pub is_over: bool,
    /// New frames are not shown.
    pub paused: bool,
    /// The help is shown.
    pub help: bool,
    /// Keys go to the filter.
    pub typing: bool,
    /// Only subjects with this in their name.
    pub filter: String,
    /// Name of the chosen subject: it stays chosen when others come and go.
    pub chosen: Option<String>,
}

impl LiveModel {
    pub fn rows(&self) -> Vec<&LiveRow> {
        let wanted = self.filter.to_lowercase();
        let rows = self.frame.iter().flat_map(|frame| &frame.rows);
        rows.filter(|row| row.name.to_lowercase().contains(&wanted))
            .collect()
    }

    /// The place of the chosen one; where none is chosen, that of the first workload, else of the machine.
    pub fn selected(&self) -> usize {
        let rows = self.rows();
        let chosen = self.chosen.as_ref();
        let place = chosen.and_then(|name| rows.iter().position(|row| row.name == *name));
        place.unwrap_or(usize::from(chosen.is_none() && rows.len() > 1))
    }

    fn select(&mut self, by: isize) {
        let rows = self.rows();
        let last = rows.len().saturating_sub(1);
        let place = self.selected().saturating_add_signed(by).min(last);
        self.chosen = rows.get(place).map(|row| row.name.clone());
    }

    pub fn key(&mut self, key: KeyEvent) -> Act {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Act::Quit;
        }
        if self.help {
            self.help = false;
            return match key.code {
                KeyCode::Char('q') => Act::Quit,
                _ => Act::GoOn,
            };
        }
        if self.typing {
            self.typing = typed(&mut self.filter, key.code);
            return Act::GoOn;
        }
        if self.is_recorded
            && let Some(wish) = wish(&mut self.paused, key.code)
        {
            return Act::Wish(wish);
        }
        match key.code {
            KeyCode::Esc if !self.filter.is_empty() => self.filter.clear(),
            KeyCode::Char('q') | KeyCode::Esc => return Act::Quit,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::PageUp => self.select(-10),
            KeyCode::PageDown => self.select(10),
            KeyCode::Home => self.select(isize::MIN),
            KeyCode::End => self.select(isize::MAX),
            _ => {}
        }
        Act::GoOn
    }
}
