//! The task that commits what a session has accepted.
//!
//! One runs at a time, as long as there is something to commit. It depends on no caller, so that
//! one who stops waiting cannot part a commit from what follows it.

use std::panic::AssertUnwindSafe;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt as _;

use super::pending::Accepted;
use super::{Live, Session, WINDOW};
use crate::Event;
use crate::store::AppendError;

/// Events that share one append to the store. A batch is never parted.
pub(super) const GROUP: usize = 512;
/// How long what is staged waits for more, at most. Too short to be seen by who watches a stream.
const LINGER: Duration = Duration::from_millis(25);

#[derive(Debug, thiserror::Error)]
#[error("the session store panicked")]
struct StorePanicked;

pub(super) async fn run(session: Session) {
    loop {
        let_more_come(&session).await;
        let Some(group) = next_group(&session) else {
            return;
        };
        match store(&session, &group).await {
            Ok(()) => take_over(&session, group),
            Err(error) => give_up(&session, group, &error),
        }
    }
}

/// Where nobody waits for what is staged, gives more of it the time to share the append, and with
/// that a commit and a row.
async fn let_more_come(session: &Session) {
    let is_urgent = {
        let pending = session.pending();
        pending.is_urgent() || pending.queue.is_empty()
    };
    if !is_urgent {
        // Cut short by somebody who waits.
        let hurry = session.inner.hurry.notified();
        let _ = tokio::time::timeout(LINGER, hurry).await;
    }
}

/// The batches to commit next; when there are none, the task is over.
fn next_group(session: &Session) -> Option<Vec<Accepted>> {
    let mut pending = session.pending();
    let mut group: Vec<Accepted> = Vec::new();
    let mut events = 0;
    while let Some(next) = pending.queue.front() {
        events += next.events.len();
        if !group.is_empty() && events > GROUP {
            break;
        }
        group.extend(pending.queue.pop_front());
    }
    if group.is_empty() {
        pending.is_committing = false;
        return None;
    }
    Some(group)
}

async fn store(session: &Session, group: &[Accepted]) -> Result<(), AppendError> {
    let events: Vec<Event> = group
        .iter()
        .flat_map(|batch| &batch.events)
        .cloned()
        .collect();
    let Some(expected) = events.first().map(Event::seq) else {
        return Ok(());
    };
    let inner = &session.inner;
    let fence = inner.leases.as_ref().map(|(_, lease)| lease.token);
    let append = inner.store.append(session.id(), expected, events, fence);
    let panicked = |_| {
        Err(AppendError::Backend {
            session: session.id().clone(),
            source: std::sync::Arc::new(StorePanicked),
        })
    };
    AssertUnwindSafe(append)
        .catch_unwind()
        .await
        .unwrap_or_else(panicked)
}

/// Applies, then publishes, then answers, batch by batch.
fn take_over(session: &Session, group: Vec<Accepted>) {
    for mut batch in group {
        if let Some(staged) = batch.staged.take() {
            let mut live = session
                .inner
                .live
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            let Live { state, window } = &mut *live;
            state.apply(staged);
            window.extend(batch.events.iter().cloned());
            let surplus = window.len().saturating_sub(WINDOW);
            window.drain(..surplus);
        }
        if !batch.events.is_empty() {
            session.inner.observers.committed(session, &batch.events);
            session.inner.changed.send_modify(|_| {});
        }
        batch.settle(Ok(()));
    }
}

/// Nothing of the group was written, so nothing that follows it has a place in the log any more.
fn give_up(session: &Session, mut group: Vec<Accepted>, error: &AppendError) {
    {
        let mut pending = session.pending();
        group.extend(std::mem::take(&mut pending.queue));
        let live = session
            .inner
            .live
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        pending.state = live.state.clone();
        pending.boundary_due =
            session.inner.begins_with_boundary && live.state.next_seq() == session.inner.opened_at;
        let nobody_waits = |batch: &Accepted| batch.waiter.is_none() && !batch.events.is_empty();
        let lost = group.iter().any(nobody_waits);
        if lost {
            pending.lost = Some(error.clone());
        }
        let moved_on = matches!(
            error,
            AppendError::Conflict { .. } | AppendError::Fenced { .. }
        );
        if lost || moved_on {
            session.inner.is_stale.store(true, Ordering::Release);
        }
    }
    for batch in group {
        batch.settle(Err(error.clone()));
    }
}
