//! Wake-ups: a nudge after each change, never the change itself.

use std::fmt;

use futures::stream::{self, BoxStream, Stream, StreamExt as _};
use tokio::sync::broadcast;

use crate::SessionId;

/// What a listener wants to be woken for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Changes of one session.
    Session(SessionId),
    /// Changes of any session.
    All,
}

impl Scope {
    /// Whether a change of this session is in it.
    #[must_use]
    pub fn covers(&self, session: &SessionId) -> bool {
        match self {
            Self::Session(wanted) => wanted == session,
            Self::All => true,
        }
    }
}

/// A listener's wake-ups. They may be more than the changes, never fewer.
pub struct Wakeups {
    source: BoxStream<'static, ()>,
}

impl fmt::Debug for Wakeups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wakeups").finish_non_exhaustive()
    }
}

impl Wakeups {
    /// Wakes the listener for each item of `source`, which ends when the store is closed.
    ///
    /// A change that is committed after this call must lead to an item, even if nobody waits for
    /// one at that moment.
    #[must_use]
    pub fn new(source: impl Stream<Item = ()> + Send + 'static) -> Self {
        Self {
            source: source.boxed(),
        }
    }

    /// Waits for the next wake-up; `None` when the store is closed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no wake-up.
    pub async fn next(&mut self) -> Option<()> {
        self.source.next().await
    }
}

/// Changes within `scope` that this process makes, as they are announced. A listener that was too
/// slow to hear of each is woken all the same.
pub(crate) fn local(
    scope: Scope,
    changes: broadcast::Receiver<SessionId>,
) -> impl Stream<Item = ()> + Send {
    stream::unfold((scope, changes), |(scope, mut changes)| async {
        loop {
            match changes.recv().await {
                Ok(session) if scope.covers(&session) => break,
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => break,
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
        Some(((), (scope, changes)))
    })
}
