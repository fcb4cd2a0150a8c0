//! What a session has accepted and its store has not committed yet.

use std::collections::VecDeque;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::commit::GROUP;
use crate::store::AppendError;
use crate::{Event, LogState, Staged};

/// Batches that have their places in the log and wait for the store, in order.
#[derive(Debug)]
pub(super) struct Pending {
    /// The state with everything that was accepted, which is what the next batch follows.
    pub(super) state: LogState,
    pub(super) queue: VecDeque<Accepted>,
    /// Whether a task is at work on the queue.
    pub(super) is_committing: bool,
    /// Whether the next batch begins a new life of a log that was closed.
    pub(super) boundary_due: bool,
    /// Whether nothing more is accepted.
    pub(super) is_closing: bool,
    /// Why a staged batch was lost, which nobody was waiting for.
    pub(super) lost: Option<AppendError>,
}

impl Pending {
    /// Whether the queue should be committed at once: somebody waits, or there is enough of it.
    pub(super) fn is_urgent(&self) -> bool {
        let is_waiting = |batch: &Accepted| batch.waiter.is_some();
        let events: usize = self.queue.iter().map(|batch| batch.events.len()).sum();
        events >= GROUP || self.queue.iter().any(is_waiting)
    }
}

/// A batch that was accepted. One without events is a barrier.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) events: Vec<Event>,
    pub(super) staged: Option<Staged>,
    /// Who waits for it; a staged batch has nobody.
    pub(super) waiter: Option<oneshot::Sender<Result<(), AppendError>>>,
    /// Its place in the queue, given up with it.
    pub(super) _place: Option<OwnedSemaphorePermit>,
}

impl Accepted {
    /// Tells who waits what came of it. Nobody is left to hear it when the caller has gone.
    pub(super) fn settle(self, outcome: Result<(), AppendError>) {
        if let Some(waiter) = self.waiter {
            let _ = waiter.send(outcome);
        }
    }
}
