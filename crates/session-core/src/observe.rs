//! Who hears of an event: checks before it is committed, observers after.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use futures::FutureExt as _;

use crate::{Event, LogState, Session};

/// Refuses events before they are committed.
pub trait Check: fmt::Debug + Send + Sync + 'static {
    /// Names the check in the error.
    fn name(&self) -> &str;

    /// Looks at an event that is to follow `state`, which does not hold it yet but holds the events
    /// before it, those of its own batch included. The rules of the log have admitted the event.
    ///
    /// # Errors
    ///
    /// Returns why the event may not be appended; the whole batch is refused then.
    fn check(&self, state: &LogState, event: &Event) -> Result<(), String>;
}

/// Hears of events after they are committed.
///
/// Called in log order, each event once, by a session that is not free to append meanwhile: waiting
/// for an append in here waits for ever. A panic in here is reported and harms nobody else. What
/// takes long, or appends, belongs into a task of its own.
#[async_trait]
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// An event of a live session has been committed.
    fn committed(&self, session: &Session, event: &Event);

    /// A session is about to close; it takes no more events. Waiting for it to open or close in here
    /// waits for ever.
    async fn closing(&self, _session: &Session) {}
}

#[derive(Debug, Default)]
pub(crate) struct Observers {
    // Replaced whole, so that a call in progress keeps the list it began with.
    list: Mutex<Arc<Vec<Registered>>>,
    registrations: AtomicU64,
}

/// One observer may be registered more than once, so each registration has a number of its own.
#[derive(Debug, Clone)]
struct Registered {
    number: u64,
    observer: Arc<dyn Observer>,
}

/// Keeps an observer registered; dropping it takes the observer away.
#[must_use = "dropping the guard takes the observer away"]
#[derive(Debug)]
pub struct ObserverGuard {
    observers: Weak<Observers>,
    number: u64,
}

impl Observers {
    pub(crate) fn add(self: &Arc<Self>, observer: Arc<dyn Observer>) -> ObserverGuard {
        let number = self.registrations.fetch_add(1, Ordering::Relaxed);
        self.edit(|list| list.push(Registered { number, observer }));
        ObserverGuard {
            observers: Arc::downgrade(self),
            number,
        }
    }

    fn list(&self) -> Arc<Vec<Registered>> {
        Arc::clone(&self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn edit(&self, edit: impl FnOnce(&mut Vec<Registered>)) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        edit(Arc::make_mut(&mut list));
    }

    pub(crate) async fn closing(&self, session: &Session) {
        for Registered { observer, .. } in self.list().iter() {
            let call = AssertUnwindSafe(observer.closing(session)).catch_unwind();
            if call.await.is_err() {
                tracing::error!(
                    session = %session.id(), ?observer,
                    "an observer panicked; the session closes all the same"
                );
            }
        }
    }

    pub(crate) fn committed(&self, session: &Session, events: &[Event]) {
        let list = self.list();
        for event in events {
            for Registered { observer, .. } in list.iter() {
                let call = AssertUnwindSafe(|| observer.committed(session, event));
                if catch_unwind(call).is_err() {
                    tracing::error!(
                        session = %session.id(), seq = %event.seq(), ?observer,
                        "an observer panicked; the event is committed all the same"
                    );
                }
            }
        }
    }
}

impl Drop for ObserverGuard {
    fn drop(&mut self) {
        if let Some(observers) = self.observers.upgrade() {
            observers.edit(|list| list.retain(|other| other.number != self.number));
        }
    }
}
