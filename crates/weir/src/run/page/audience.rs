// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clients that look at the page. Each has a bounded queue; one that does not empty its queue in time is
//! left, and finds all again when it comes back. There are only so many.

use crate::run::serve::http::EventStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Clients at once; more are told to come later.
pub const CLIENTS_MAX: usize = 16;
/// Events that wait for a client at most.
const QUEUE_EVENTS: usize = 8;

/// Those that events are made for: in this process, or in the one that serves.
pub trait Viewers: Send + Sync {
    /// Whether there are any, and whether one of them has seen nothing so far.
    fn is_there(&self) -> (bool, bool);

    /// Sends `tick` to those that have seen what was before it, and `full` to the others. Never waits. False
    /// if that is lost: then all must begin anew.
    fn send(&self, tick: Option<&PageEvent>, full: Option<&PageEvent>) -> bool;
}

/// Bytes of an event, shared by all clients.
pub type PageEvent = Arc<[u8]>;

struct Client {
    queue: SyncSender<PageEvent>,
    /// It has not seen all so far.
    is_fresh: bool,
}

#[derive(Default)]
pub struct Audience {
    clients: Mutex<Vec<Client>>,
    /// Connections, also of clients that were left and did not notice yet.
    places: Arc<AtomicUsize>,
}

/// A connection's place among them.
struct AudiencePlace(Arc<AtomicUsize>);

impl Drop for AudiencePlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Audience {
    /// One more, if there is a place.
    pub fn join(&self) -> Option<EventStream> {
        let taken = self.places.fetch_add(1, Ordering::Relaxed);
        let place = AudiencePlace(Arc::clone(&self.places));
        if taken >= CLIENTS_MAX {
            return None;
        }
        let (queue, coming) = sync_channel(QUEUE_EVENTS);
        let is_fresh = true;
        self.clients().push(Client { queue, is_fresh });
        let _place = Box::new(place);
        Some(EventStream { coming, _place })
    }

    fn clients(&self) -> MutexGuard<'_, Vec<Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Viewers for Audience {
    fn is_there(&self) -> (bool, bool) {
        let clients = self.clients();
        let any_fresh = clients.iter().any(|client| client.is_fresh);
        (!clients.is_empty(), any_fresh)
    }

    fn send(&self, tick: Option<&PageEvent>, full: Option<&PageEvent>) -> bool {
        self.clients().retain_mut(|client| {
            let event = if client.is_fresh { full } else { tick };
            let Some(event) = event else { return true };
            client.is_fresh = false;
            client.queue.try_send(Arc::clone(event)).is_ok()
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> PageEvent {
        text.as_bytes().into()
    }

    fn taken(events: &EventStream) -> Vec<String> {
        let all = events.coming.try_iter();
        all.map(|event| String::from_utf8_lossy(&event).into_owned())
            .collect()
    }

    #[test]
    fn a_client_gets_all_and_then_what_changes() {
        let audience = Audience::default();
        assert_eq!(audience.is_there(), (false, false));
        let first = audience.join().unwrap();
        assert_eq!(audience.is_there(), (true, true));
        audience.send(Some(&event("1")), None);
        assert!(taken(&first).is_empty(), "it does not know what was before");
        audience.send(Some(&event("2")), Some(&event("all")));
        let second = audience.join().unwrap();
        audience.send(Some(&event("3")), Some(&event("all 3")));
        assert_eq!(taken(&first), ["all", "3"]);
        assert_eq!(taken(&second), ["all 3"]);
        drop(first);
        audience.send(Some(&event("4")), None);
        assert_eq!(audience.clients().len(), 1, "one has gone");
    }

    #[test]
    fn a_client_that_takes_nothing_is_left_and_keeps_its_place_until_it_goes() {
        let audience = Audience::default();
        let mut all: Vec<EventStream> =
            (0..CLIENTS_MAX).map(|_| audience.join().unwrap()).collect();
        assert!(audience.join().is_none());
        for _ in 0..=QUEUE_EVENTS {
            audience.send(Some(&event("x")), Some(&event("all")));
        }
        assert_eq!(audience.is_there(), (false, false));
        assert!(audience.join().is_none(), "their connections are there");
        assert_eq!(
            taken(&all[0]).len(),
            QUEUE_EVENTS,
            "no more than that waits"
        );
        all.pop();
        assert!(audience.join().is_some());
    }
}
