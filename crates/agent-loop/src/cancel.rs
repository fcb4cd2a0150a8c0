//! Stopping a turn on purpose.

use std::sync::{Arc, OnceLock};

use session_core::event::AbortReason;
use tokio_util::sync::CancellationToken;

/// Stops a turn, and says who did. All clones stop the same turn.
///
/// A bare [`CancellationToken`] converts into one, and then stands for the person at the prompt.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    token: CancellationToken,
    cause: Arc<OnceLock<AbortReason>>,
}

impl Cancel {
    /// One that has not been used.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops the turn. The first cause is the one that is logged; later ones change nothing.
    pub fn abort(&self, cause: AbortReason) {
        if !self.token.is_cancelled() {
            // Fails only where another cause was first.
            let _ = self.cause.set(cause);
            self.token.cancel();
        }
    }

    /// Cancelled once the turn is to stop. Cancelling it is to abort on behalf of the user.
    #[must_use]
    pub const fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Who stopped the turn; `None` while nobody did.
    #[must_use]
    pub fn cause(&self) -> Option<AbortReason> {
        self.token
            .is_cancelled()
            .then(|| self.cause.get().cloned().unwrap_or(AbortReason::User))
    }
}

impl From<CancellationToken> for Cancel {
    fn from(token: CancellationToken) -> Self {
        Self {
            token,
            cause: Arc::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_wins() {
        let cancel = Cancel::new();
        assert_eq!(cancel.cause(), None);
        cancel.abort(AbortReason::Parent);
        cancel.abort(AbortReason::Disposed);
        assert_eq!(cancel.cause(), Some(AbortReason::Parent));
    }

    #[test]
    fn a_bare_token_stands_for_the_user() {
        let token = CancellationToken::new();
        let cancel = Cancel::from(token.clone());
        token.cancel();
        cancel.abort(AbortReason::Disposed);
        assert_eq!(cancel.cause(), Some(AbortReason::User));
    }
}
