//! The one who folds a live session.

use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use session_core::store::Checkpoint;
use session_core::{Seq, Session};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, timeout_at};

use crate::FoldError;
use crate::cells::{Cells, Pass};
use crate::log::Log;
use crate::projections::Shared;

/// Folds one live session. Nudged after each event, it reads the log from where it stopped.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) cells: Mutex<Cells>,
    work: StdMutex<Work>,
    wake: Notify,
}

/// The task that folds lives only while there is something to do, so that an idle session is held
/// by nobody here.
#[derive(Debug, Default)]
struct Work {
    is_running: bool,
    is_nudged: bool,
}

impl Driver {
    /// Events before `announce_from` will be no news.
    pub(crate) fn new(announce_from: Seq) -> Self {
        Self {
            cells: Mutex::new(Cells::new(announce_from)),
            work: StdMutex::default(),
            wake: Notify::new(),
        }
    }

    /// Sees to it that the log is folded to its end soon. Without a runtime the next read does it.
    pub(crate) fn nudge(self: &Arc<Self>, shared: &Arc<Shared>, session: &Session) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        work.is_nudged = true;
        if work.is_running {
            self.wake.notify_one();
        } else {
            work.is_running = true;
            let (driver, shared) = (Arc::clone(self), Arc::clone(shared));
            runtime.spawn(driver.run(shared, session.clone()));
        }
    }

    async fn run(self: Arc<Self>, shared: Arc<Shared>, session: Session) {
        loop {
            self.work
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .is_nudged = false;
            let due = self.drive(&shared, &session).await;
            {
                let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
                if work.is_nudged {
                    continue;
                }
                if due.is_none() {
                    work.is_running = false;
                    return;
                }
            }
            if let Some(due) = due {
                // Late or woken, the next round finds out what there is to do.
                let _ = timeout_at(due, self.wake.notified()).await;
            }
        }
    }

    /// Folds to the end of the log and saves what is due. Returns when the next save is.
    async fn drive(&self, shared: &Shared, session: &Session) -> Option<Instant> {
        let mut cells = self.cells.lock().await;
        if cells.is_closed {
            return None;
        }
        if let Err(error) = shared.advance(&mut cells, session, Pass::Drive).await {
            tracing::error!(session = %session.id(), %error, "projections are behind the log");
            return None;
        }
        let due = shared.save_due(&cells)?;
        if due > Instant::now() {
            return Some(due);
        }
        let rows = cells.unsaved_rows();
        drop(cells);
        self.save(shared, session, rows).await;
        None
    }

    /// Folds to the end of a log that takes no more events, and saves.
    pub(crate) async fn close(&self, shared: &Shared, session: &Session) {
        let mut cells = self.cells.lock().await;
        if let Err(error) = shared.advance(&mut cells, session, Pass::Drive).await {
            tracing::warn!(session = %session.id(), %error, "projections are behind the log");
        }
        cells.is_closed = true;
        let rows = cells.unsaved_rows();
        drop(cells);
        self.wake.notify_one();
        self.save(shared, session, rows).await;
    }

    async fn save(&self, shared: &Shared, session: &Session, rows: Vec<Checkpoint>) {
        if !shared.save(session.id(), rows.clone()).await {
            self.cells.lock().await.not_saved(&rows);
        }
    }
}

impl Shared {
    /// Folds the log into the cells of every unit that is registered now.
    pub(crate) async fn advance(
        &self,
        cells: &mut Cells,
        session: &Session,
        pass: Pass,
    ) -> Result<Seq, FoldError> {
        let log = Log::Live(session);
        cells
            .match_units(&self.registry.units(), &log, self.checkpoints.as_deref())
            .await;
        cells.advance(&log, pass, Some(&self.feed)).await
    }
}
