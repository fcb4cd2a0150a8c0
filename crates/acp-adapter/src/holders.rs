//! Which sessions are in use by how many connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use session_core::{CreateFailure, NewSession, OpenFailure, Session, SessionId, Sessions};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::connection::lock;

/// Counts the connections of one agent that use a session, and closes it behind the last one.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    held: Mutex<HashMap<SessionId, Held>>,
    // One lock an id, held while that session opens or closes, so that none is closed under a new
    // holder and no session waits for another.
    changing: Mutex<HashMap<SessionId, Weak<AsyncMutex<()>>>>,
}

#[derive(Debug)]
struct Held {
    connections: usize,
    /// Whether the harness had it open on its own account, and keeps it.
    kept: bool,
}

/// The right to open or close one session. Others wait for their turn on the same session.
pub(crate) struct Change<'a> {
    holders: &'a Holders,
    sessions: &'a Sessions,
    id: SessionId,
    _changing: OwnedMutexGuard<()>,
}

impl Holders {
    /// Waits until nobody else opens or closes this session.
    pub(crate) async fn change<'a>(&'a self, sessions: &'a Sessions, id: &SessionId) -> Change<'a> {
        let changing = {
            let mut locks = lock(&self.changing);
            locks.retain(|_, lock| lock.strong_count() > 0);
            let known = locks.get(id).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let lock = Arc::default();
                locks.insert(id.clone(), Arc::downgrade(&lock));
                lock
            })
        };
        Change {
            holders: self,
            sessions,
            id: id.clone(),
            _changing: changing.lock_owned().await,
        }
    }
}

impl Change<'_> {
    /// Creates the session, under this id, for one connection.
    pub(crate) async fn create(&self, new: NewSession) -> Result<Session, CreateFailure> {
        let id = Some(self.id.clone());
        let session = self.sessions.create(NewSession { id, ..new }).await?;
        self.hold(false);
        Ok(session)
    }

    /// Opens the session for one connection more.
    pub(crate) async fn open(&self) -> Result<Session, OpenFailure> {
        let kept = self.sessions.live(&self.id).is_some();
        let session = self.sessions.open(&self.id).await?;
        self.hold(kept);
        Ok(session)
    }

    /// Takes one connection off, and closes the session if it was the last.
    pub(crate) async fn release(&self) {
        if self.is_left() {
            self.sessions.close(&self.id).await;
        }
    }

    /// Counts one connection more. The first one says whether the harness keeps the session.
    fn hold(&self, kept: bool) {
        let mut held = lock(&self.holders.held);
        let entry = held.entry(self.id.clone()).or_insert(Held {
            connections: 0,
            kept,
        });
        entry.connections += 1;
    }

    /// Counts one connection less; whether nobody is left who uses the session.
    fn is_left(&self) -> bool {
        let mut held = lock(&self.holders.held);
        let Some(entry) = held.get_mut(&self.id) else {
            return false;
        };
        entry.connections -= 1;
        if entry.connections > 0 {
            return false;
        }
        let kept = entry.kept;
        held.remove(&self.id);
        !kept
    }
}
