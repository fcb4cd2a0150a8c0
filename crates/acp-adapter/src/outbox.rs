//! Updates on their way to the client, and how many of them there may be.

use std::sync::Arc;

use agent_client_protocol::Client;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{SessionNotification, SessionUpdate};
use session_core::SessionId;
use tokio::sync::{Semaphore, SemaphorePermit};

/// How many updates may have been sent and not been written. The protocol crate's queue has no
/// bound of its own, so that a replay of a long log would end up in memory as a whole.
pub(crate) const IN_FLIGHT: usize = 256;

/// Room for updates between those who send and the writer.
#[derive(Debug)]
pub(crate) struct Room(Semaphore);

impl Room {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Semaphore::new(IN_FLIGHT)))
    }

    /// Takes note that this many updates have been written.
    pub(crate) fn leave(&self, updates: usize) {
        self.0.add_permits(updates);
    }

    /// Lets nobody wait any longer once the guard is gone.
    pub(crate) fn close_on_drop(self: &Arc<Self>) -> CloseRoom {
        CloseRoom(Arc::clone(self))
    }
}

#[derive(Debug)]
pub(crate) struct CloseRoom(Arc<Room>);

impl Drop for CloseRoom {
    fn drop(&mut self) {
        self.0.0.close();
    }
}

/// The connection is over.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the client is gone")]
pub(crate) struct Gone;

/// Sends updates to one client.
#[derive(Clone)]
pub(crate) struct Outbox {
    client: ConnectionTo<Client>,
    room: Arc<Room>,
}

impl Outbox {
    pub(crate) fn new(client: ConnectionTo<Client>, room: Arc<Room>) -> Self {
        Self { client, room }
    }

    /// Sends an update, once there is room for it. Updates and answers reach the client in the
    /// order in which they are sent.
    pub(crate) async fn send(
        &self,
        session: &SessionId,
        update: SessionUpdate,
    ) -> Result<(), Gone> {
        self.seat().await?.send(session, update)
    }

    /// Waits until there is room for one update.
    pub(crate) async fn seat(&self) -> Result<Seat<'_>, Gone> {
        let taken = self.room.0.acquire().await.map_err(|_| Gone)?;
        Ok(Seat {
            client: &self.client,
            taken,
        })
    }
}

/// Room for one update.
pub(crate) struct Seat<'a> {
    client: &'a ConnectionTo<Client>,
    taken: SemaphorePermit<'a>,
}

impl Seat<'_> {
    pub(crate) fn send(self, session: &SessionId, update: SessionUpdate) -> Result<(), Gone> {
        // The writer gives it back.
        self.taken.forget();
        let notification = SessionNotification::new(session.as_str().to_owned(), update);
        self.client
            .send_notification(notification)
            .map_err(|_| Gone)
    }
}
