//! Wake-ups: a nudge after each change, never the change itself.

use std::fmt;

use futures::future::BoxFuture;
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

/// A listener's wake-ups. They may be more than the changes, never fewer.
pub struct Wakeups {
    scope: Scope,
    local: broadcast::Receiver<SessionId>,
    external: Option<Box<dyn External>>,
}

/// Notices changes that other processes make.
pub(crate) trait External: Send {
    /// Waits for the next change by another process.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no change.
    fn changed(&mut self) -> BoxFuture<'_, ()>;
}

impl fmt::Debug for Wakeups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wakeups")
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

impl Wakeups {
    pub(crate) fn new(
        scope: Scope,
        local: broadcast::Receiver<SessionId>,
        external: Option<Box<dyn External>>,
    ) -> Self {
        Self {
            scope,
            local,
            external,
        }
    }

    /// Waits for the next wake-up; `None` when the store is closed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no wake-up.
    pub async fn next(&mut self) -> Option<()> {
        let Self {
            scope,
            local,
            external,
        } = self;
        let elsewhere = async {
            match external {
                Some(external) => external.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(elsewhere);
        loop {
            tokio::select! {
                changed = local.recv() => match changed {
                    Ok(session) => match scope {
                        Scope::Session(wanted) if *wanted != session => {}
                        Scope::Session(_) | Scope::All => return Some(()),
                    },
                    Err(broadcast::error::RecvError::Lagged(_)) => return Some(()),
                    Err(broadcast::error::RecvError::Closed) => return None,
                },
                () = &mut elsewhere => return Some(()),
            }
        }
    }
}
