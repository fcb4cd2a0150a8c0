//! What one client has open, and what it is doing with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::ClientCapabilities;
use session_core::{NewSession, Session, SessionId};
use tokio::sync::Mutex as AsyncMutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::holders::Holders;
use crate::outbox::Room;
use crate::{Host, Mode, Projector, PromptCancel, fault};

/// One client's connection.
pub(crate) struct Connection {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) room: Arc<Room>,
    /// Cancelled when the client is gone; every prompt with it.
    pub(crate) gone: CancellationToken,
    /// The turns of this client, which are waited for before their sessions are closed.
    pub(crate) turns: TaskTracker,
    /// Everything else that is going on for this client.
    pub(crate) tasks: TaskTracker,
    holders: Arc<Holders>,
    client: Mutex<ClientCapabilities>,
    open: Mutex<HashMap<SessionId, Arc<Attached>>>,
}

/// A session that is open on a connection.
pub(crate) struct Attached {
    pub(crate) session: Session,
    /// What the client has been shown. Used only by the one who occupies the session.
    pub(crate) projector: AsyncMutex<Projector>,
    occupant: Mutex<Option<Occupant>>,
}

/// What a session can be busy with. There is only ever one thing at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Prompt,
    Attach,
}

#[derive(Clone)]
struct Occupant {
    work: Work,
    cancel: PromptCancel,
    done: CancellationToken,
}

/// The right to work on a session, until it is dropped.
pub(crate) struct Occupancy {
    pub(crate) attached: Arc<Attached>,
    pub(crate) cancel: PromptCancel,
    done: CancellationToken,
    finished: bool,
}

impl Connection {
    pub(crate) fn new(host: Arc<dyn Host>, holders: Arc<Holders>) -> Arc<Self> {
        Arc::new(Self {
            host,
            room: Room::new(),
            gone: CancellationToken::new(),
            turns: TaskTracker::new(),
            tasks: TaskTracker::new(),
            holders,
            client: Mutex::default(),
            open: Mutex::default(),
        })
    }

    pub(crate) fn set_client(&self, capabilities: ClientCapabilities) {
        *lock(&self.client) = capabilities;
    }

    pub(crate) fn projector(&self) -> Projector {
        Projector::new(Mode::Live, &lock(&self.client), self.host.tools().clone())
    }

    /// The session, if it is open on this connection.
    pub(crate) fn attached(&self, id: &SessionId) -> Option<Arc<Attached>> {
        lock(&self.open).get(id).cloned()
    }

    /// Makes a new session known to this connection.
    pub(crate) async fn create(&self, new: NewSession) -> Result<SessionId, Error> {
        let sessions = self.host.sessions();
        // Minted here, so that nobody else opens the session before it is counted as held.
        let id = sessions.ids().mint().into();
        let change = self.holders.change(sessions, &id).await;
        let created = change.create(new).await;
        let session = created.map_err(|failure| fault::internal(&failure))?;
        self.attach(session);
        Ok(id)
    }

    /// Opens a session on this connection; whether it was not open on it before comes back too.
    pub(crate) async fn open(&self, id: &SessionId) -> Result<(Arc<Attached>, bool), Error> {
        // Held until the session is attached, so that a connection counts once for each.
        let change = self.holders.change(self.host.sessions(), id).await;
        if let Some(attached) = self.attached(id) {
            return Ok((attached, false));
        }
        let opened = change.open().await;
        let session = opened.map_err(|failure| fault::open(&failure))?;
        Ok((self.attach(session), true))
    }

    fn attach(&self, session: Session) -> Arc<Attached> {
        let id = session.id().clone();
        let attached = Arc::new(Attached {
            session,
            projector: AsyncMutex::new(self.projector()),
            occupant: Mutex::default(),
        });
        lock(&self.open).insert(id, Arc::clone(&attached));
        attached
    }

    /// Ends the use of a session by this connection. Once only: whoever comes second does nothing.
    pub(crate) async fn detach(&self, attached: &Arc<Attached>) {
        if self.forget(attached) {
            self.release(attached).await;
        }
    }

    /// Takes a session out of sight, so that nothing new begins on it; `false` when it was.
    pub(crate) fn forget(&self, attached: &Arc<Attached>) -> bool {
        let mut open = lock(&self.open);
        let id = attached.session.id();
        let known = open
            .get(id)
            .is_some_and(|other| Arc::ptr_eq(other, attached));
        known && open.remove(id).is_some()
    }

    /// Gives a session back that was taken out of sight.
    pub(crate) async fn release(&self, attached: &Attached) {
        let (sessions, id) = (self.host.sessions(), attached.session.id());
        self.holders.change(sessions, id).await.release().await;
    }

    /// Ends what is going on for a client that is gone. Turns are cancelled and waited for, so that
    /// the log closes them; then the sessions are given back; then whatever still waits for the
    /// client ends.
    pub(crate) async fn wind_up(&self) {
        self.gone.cancel();
        self.turns.close();
        self.turns.wait().await;
        self.release_all().await;
        self.tasks.close();
        self.tasks.wait().await;
        // What was being opened meanwhile.
        self.release_all().await;
    }

    async fn release_all(&self) {
        let open: Vec<_> = lock(&self.open).drain().collect();
        for (_, attached) in open {
            self.release(&attached).await;
        }
    }
}

impl Attached {
    /// Takes the session for some work; refused while it is taken.
    pub(crate) fn occupy(
        self: &Arc<Self>,
        work: Work,
        cancel: PromptCancel,
    ) -> Result<Occupancy, Error> {
        let mut occupant = lock(&self.occupant);
        if let Some(other) = &*occupant {
            return Err(fault::invalid(match other.work {
                Work::Prompt => "a prompt is already running in this session",
                Work::Attach => "this session is being loaded",
            }));
        }
        let done = CancellationToken::new();
        *occupant = Some(Occupant {
            work,
            cancel: cancel.clone(),
            done: done.clone(),
        });
        Ok(Occupancy {
            attached: Arc::clone(self),
            cancel,
            done,
            finished: false,
        })
    }

    /// Cancels a prompt that is running.
    pub(crate) fn cancel_prompt(&self) {
        if let Some(Occupant {
            work: Work::Prompt,
            cancel,
            ..
        }) = &*lock(&self.occupant)
        {
            cancel.cancel();
        }
    }

    /// Cancels whatever is going on, and waits for its end.
    pub(crate) async fn interrupt(&self) {
        let occupant = lock(&self.occupant).clone();
        if let Some(Occupant { cancel, done, .. }) = occupant {
            cancel.cancel();
            done.cancelled().await;
        }
    }
}

impl Occupancy {
    /// Cancelled once the work is over.
    pub(crate) fn done(&self) -> CancellationToken {
        self.done.clone()
    }

    /// Says the last word about the work and ends it, as one: a client that has read the answer
    /// finds the session free, and nobody else gets a word in before the answer.
    pub(crate) fn finish(mut self, answer: impl FnOnce()) {
        let mut occupant = lock(&self.attached.occupant);
        answer();
        *occupant = None;
        self.finished = true;
    }
}

impl Drop for Occupancy {
    fn drop(&mut self) {
        if !self.finished {
            *lock(&self.attached.occupant) = None;
        }
        self.done.cancel();
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics between two changes that belong together.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
