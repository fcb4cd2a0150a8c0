//! Who hears of an event: checks before it is committed, observers after.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;

use crate::{Event, LogState, Session};

/// Refuses events before they are committed.
pub trait Check: fmt::Debug + Send + Sync + 'static {
    /// Names the check in the error.
    fn name(&self) -> &str;

    /// Looks at an event that is to follow `state`, which does not hold it yet.
    ///
    /// # Errors
    ///
    /// Returns why the event may not be appended; the whole batch is refused then.
    fn check(&self, state: &LogState, event: &Event) -> Result<(), String>;
}

/// Hears of events after they are committed.
///
/// Called in log order, each event once. A panic in here is reported and harms nobody else. What
/// takes long belongs into a task of its own that reads the log.
#[async_trait]
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// An event of a live session has been committed.
    fn committed(&self, session: &Session, event: &Event);

    /// A session is about to close; it takes no more events.
    async fn closing(&self, _session: &Session) {}
}

#[derive(Debug, Default)]
pub(crate) struct Observers {
    // Replaced whole, so that a call in progress keeps the list it began with.
    list: Mutex<Arc<Vec<Arc<dyn Observer>>>>,
}

/// Keeps an observer registered; dropping it takes the observer away.
#[must_use = "dropping the guard takes the observer away"]
#[derive(Debug)]
pub struct ObserverGuard {
    observers: Weak<Observers>,
    observer: Arc<dyn Observer>,
}

impl Observers {
    pub(crate) fn add(self: &Arc<Self>, observer: Arc<dyn Observer>) -> ObserverGuard {
        self.edit(|list| list.push(Arc::clone(&observer)));
        ObserverGuard {
            observers: Arc::downgrade(self),
            observer,
        }
    }

    pub(crate) fn list(&self) -> Arc<Vec<Arc<dyn Observer>>> {
        Arc::clone(&self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn edit(&self, edit: impl FnOnce(&mut Vec<Arc<dyn Observer>>)) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        edit(Arc::make_mut(&mut list));
    }

    pub(crate) fn committed(&self, session: &Session, events: &[Event]) {
        let list = self.list();
        for event in events {
            for observer in list.iter() {
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
            observers.edit(|list| list.retain(|other| !Arc::ptr_eq(other, &self.observer)));
        }
    }
}
