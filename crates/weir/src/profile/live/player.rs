// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording that is played: each window with those before it, at the recording's own pace, and moves
//! through it.

use super::feed::{FeedError, FeedSender};
use super::frame::{LiveFrame, moment};
use crate::recordings::replay_screen::Wish;
use crate::run::screens::latest_windows::WINDOWS_TOGETHER;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use weir_core::Nanos;
use weir_profile::WindowFile;

/// A window is shown for its own length, but not for less or more than this.
const SHOWN: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(10)];
/// So many milliseconds of a jump are one window: windows of a second are the usual ones.
const MS_A_WINDOW: i64 = 1000;

/// Plays a file of windows that has one or more.
pub struct WindowPlayer {
    file: WindowFile,
    idle: Option<WindowFile>,
    workload: Option<String>,
    /// The window that is shown.
    at: usize,
    paused: bool,
}

impl WindowPlayer {
    /// A player at the beginning of the recording. Nothing where there is no window.
    pub fn new(
        file: WindowFile,
        idle: Option<WindowFile>,
        workload: Option<String>,
    ) -> Option<WindowPlayer> {
        (!file.windows.is_empty()).then_some(WindowPlayer {
            file,
            idle,
            workload,
            at: 0,
            paused: false,
        })
    }

    fn last(&self) -> usize {
        self.file.windows.len() - 1
    }

    /// The window that is shown, with those before it.
    pub fn frame(&self) -> LiveFrame {
        let first = (self.at + 1).saturating_sub(WINDOWS_TOGETHER);
        let windows = self.file.windows[first..=self.at].to_vec();
        let (to, end) = (windows.last(), self.file.windows.last());
        let [to, end] = [to, end].map(|window| window.map_or(Nanos(0), |window| window.to));
        let place = format!(
            "{} of {} · windows {} to {} of {}",
            moment(to),
            moment(end),
            first + 1,
            self.at + 1,
            self.file.windows.len()
        );
        let part = WindowFile {
            header: self.file.header.clone(),
            windows,
        };
        LiveFrame::new(&part, self.idle.as_ref(), self.workload.as_deref(), place)
    }

    pub fn go_to_end(&mut self) {
        self.at = self.last();
    }

    /// Carries out a wish; false where what is shown stays the same.
    fn grant(&mut self, wish: Wish) -> bool {
        let before = self.at;
        match wish {
            Wish::Pause(paused) => self.paused = paused,
            Wish::Step { back } => {
                self.paused = true;
                self.go(if back { -1 } else { 1 });
            }
            Wish::By(ms) => self.go(ms / MS_A_WINDOW),
            Wish::Start => self.at = 0,
            Wish::End => self.go_to_end(),
        }
        self.at != before
    }

    fn go(&mut self, by: i64) {
        // A file has a million windows at most.
        let by = isize::try_from(by).unwrap_or(0);
        self.at = self.at.saturating_add_signed(by).min(self.last());
    }

    /// How long the next window takes to come; nothing if none comes by itself.
    fn wait(&self, shown_for: Duration) -> Option<Duration> {
        let next = self
            .file
            .windows
            .get(self.at + 1)
            .filter(|_| !self.paused)?;
        let length = Duration::from_nanos(next.length().unwrap_or_default().0);
        let [least, most] = SHOWN;
        Some(length.clamp(least, most).saturating_sub(shown_for))
    }

    /// Until the screen has gone.
    pub fn run(mut self, wishes: &Receiver<Wish>, send: &FeedSender) -> Result<(), FeedError> {
        loop {
            send.frame(self.frame())?;
            let shown = Instant::now();
            loop {
                let wish = match self.wait(shown.elapsed()) {
                    Some(wait) => wishes.recv_timeout(wait),
                    None => wishes.recv().map_err(|_| RecvTimeoutError::Disconnected),
                };
                match wish {
                    Ok(wish) if !self.grant(wish) => {}
                    Ok(_) => break,
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                    Err(RecvTimeoutError::Timeout) => {
                        self.go(1);
                        break;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::Window;
    use weir_profile::window_file::Header;

    fn player(windows: u64) -> WindowPlayer {
        let window = |number| Window {
            from: Nanos(number * 1_000_000_000),
            to: Nanos((number + 1) * 1_000_000_000),
            ..Window::default()
        };
        let file = WindowFile {
            header: Header::new("a test"),
            windows: (0..windows).map(window).collect(),
        };
        WindowPlayer::new(file, None, None).unwrap()
    }

    #[test]
    fn wishes_move_within_the_recording() {
        let mut player = player(100);
        for (wish, at) in [
            (Wish::By(10_000), 10),
            (Wish::By(-60_000), 0),
            (Wish::Step { back: true }, 0),
            (Wish::Step { back: false }, 1),
            (Wish::End, 99),
            (Wish::By(i64::MAX), 99),
            (Wish::Start, 0),
        ] {
            player.grant(wish);
            assert_eq!(player.at, at, "{wish:?}");
        }
        assert!(player.wait(Duration::ZERO).is_none(), "a step pauses it");
        player.grant(Wish::Pause(false));
        assert!(player.wait(Duration::ZERO).is_some());
        player.grant(Wish::End);
        assert!(
            player.wait(Duration::ZERO).is_none(),
            "nothing comes after the end"
        );
    }

    #[test]
    fn a_place_says_which_windows_are_shown() {
        let mut player = player(100);
        assert_eq!(
            player.frame().place,
            "1.0 s of 0:01:40 · windows 1 to 1 of 100"
        );
        player.grant(Wish::By(20_000));
        assert_eq!(
            player.frame().place,
            "21.0 s of 0:01:40 · windows 12 to 21 of 100"
        );
    }
}
