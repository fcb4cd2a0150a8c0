//! Which sessions are in use by how many connections.

use std::collections::HashMap;

use session_core::{CreateFailure, NewSession, OpenFailure, Session, SessionId, Sessions};
use tokio::sync::Mutex;

/// Counts the connections of one agent that use a session, and closes it behind the last one.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    // Held while a session opens or closes, so that none is closed under a new holder.
    held: Mutex<HashMap<SessionId, Held>>,
}

#[derive(Debug)]
struct Held {
    connections: usize,
    /// Whether the harness had it open on its own account, and keeps it.
    kept: bool,
}

impl Holders {
    pub(crate) async fn create(
        &self,
        sessions: &Sessions,
        new: NewSession,
    ) -> Result<Session, CreateFailure> {
        let mut held = self.held.lock().await;
        let session = sessions.create(new).await?;
        let (connections, kept) = (1, false);
        held.insert(session.id().clone(), Held { connections, kept });
        Ok(session)
    }

    pub(crate) async fn open(
        &self,
        sessions: &Sessions,
        id: &SessionId,
    ) -> Result<Session, OpenFailure> {
        let mut held = self.held.lock().await;
        let kept = sessions.live(id).is_some();
        let session = sessions.open(id).await?;
        let entry = held.entry(id.clone());
        let entry = entry.or_insert(Held {
            connections: 0,
            kept,
        });
        entry.connections += 1;
        Ok(session)
    }

    pub(crate) async fn release(&self, sessions: &Sessions, id: &SessionId) {
        let mut held = self.held.lock().await;
        let Some(entry) = held.get_mut(id) else {
            return;
        };
        entry.connections -= 1;
        if entry.connections == 0 {
            let kept = entry.kept;
            held.remove(id);
            if !kept {
                sessions.close(id).await;
            }
        }
    }
}
