// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads an optional component in a thread of its own. Callers do without it until it is there, and for good
//! where it cannot be loaded or has failed.

use std::thread::JoinHandle;
use weir_core::Missing;

/// Something, or why not.
pub(crate) type LoadState<T> = Result<Box<T>, Missing>;

/// Something that is there, is coming, or is not to be had.
pub(crate) struct Beside<T: ?Sized> {
    found: LoadState<T>,
    coming: Option<JoinHandle<LoadState<T>>>,
}

impl<T: ?Sized + Send + 'static> Beside<T> {
    /// It is there, or is not to be had.
    pub(crate) fn settled(found: LoadState<T>) -> Self {
        Beside {
            found,
            coming: None,
        }
    }

    /// It is loaded by a thread of this name.
    pub(crate) fn begin(name: &str, load: impl FnOnce() -> LoadState<T> + Send + 'static) -> Self {
        match std::thread::Builder::new().name(name.into()).spawn(load) {
            Ok(coming) => Beside {
                found: Err(Missing::NotYetRead),
                coming: Some(coming),
            },
            Err(e) => Self::settled(Err(Missing::Lost(format!("no thread to load it: {e}")))),
        }
    }

    /// It, if it is there by now.
    pub(crate) fn get(&mut self) -> Option<&mut T> {
        if let Some(coming) = self.coming.take_if(|coming| coming.is_finished()) {
            let panicked = |_| {
                Err(Missing::Lost(
                    "the thread that loads it has panicked".into(),
                ))
            };
            self.found = coming.join().unwrap_or_else(panicked);
        }
        self.found.as_deref_mut().ok()
    }

    /// From now on it is not there.
    pub(crate) fn fail(&mut self, why: Missing) {
        self.found = Err(why);
    }

    /// It, as it is by now, or why it is not there.
    pub(crate) fn there(&self) -> Result<&T, &Missing> {
        self.found.as_deref()
    }

    pub(crate) fn lacking(&self) -> Option<&Missing> {
        self.found.as_ref().err()
    }

    #[cfg(test)]
    pub(crate) fn is_coming(&self) -> bool {
        self.coming
            .as_ref()
            .is_some_and(|coming| !coming.is_finished())
    }
}
