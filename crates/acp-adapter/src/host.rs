//! What the agent needs from the harness that it belongs to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use session_core::event::{AbortReason, ContentBlock, TurnEndReason};
use session_core::store::BoxError;
use session_core::{Session, Sessions};
use tokio_util::sync::CancellationToken;
use tool_runtime::ToolRegistry;

/// A harness, as far as the agent needs it.
#[async_trait]
pub trait Host: Send + Sync + 'static {
    /// The sessions that clients create and open.
    fn sessions(&self) -> &Sessions;

    /// The tools, for the way their calls are shown.
    fn tools(&self) -> &ToolRegistry;

    /// Who the agent is.
    fn agent_info(&self) -> AgentInfo;

    /// Runs one turn to its end: what the person said, and all the work that follows from it.
    ///
    /// The future is polled in a task of its own and never dropped before it ends. Once `cancel` is
    /// cancelled it closes the turn in the log, with the reason that `cancel` gives, and returns
    /// soon.
    ///
    /// # Errors
    ///
    /// Returns [`PromptError`] when no turn was run, or when its end is not in the log.
    async fn prompt(
        &self,
        session: &Session,
        content: Vec<ContentBlock>,
        cancel: PromptCancel,
    ) -> Result<TurnEndReason, PromptError>;
}

/// Asks a prompt to stop, and says why.
///
/// Cheap to clone; all clones belong to the same prompt.
#[derive(Debug, Clone)]
pub struct PromptCancel {
    token: CancellationToken,
    by_user: Arc<AtomicBool>,
}

impl PromptCancel {
    /// One that is cancelled with `client`, which stands for the client's presence.
    pub(crate) fn of(client: &CancellationToken) -> Self {
        Self {
            token: client.child_token(),
            by_user: Arc::default(),
        }
    }

    /// Asks the prompt to stop on behalf of the user, unless it has been asked before.
    pub(crate) fn cancel(&self) {
        if !self.token.is_cancelled() {
            self.by_user.store(true, Ordering::Release);
            self.token.cancel();
        }
    }

    /// Waits until the prompt is to stop. Returns why: [`AbortReason::User`] when the client asked
    /// for it, [`AbortReason::Disposed`] when the client is gone.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn cancelled(&self) -> AbortReason {
        self.token.cancelled().await;
        if self.by_user.load(Ordering::Acquire) {
            AbortReason::User
        } else {
            AbortReason::Disposed
        }
    }

    /// Whether the prompt is to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }
}

/// Who the agent is, in the words that clients show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentInfo {
    /// For programs.
    pub name: String,
    /// For people.
    pub title: String,
    /// The version of the harness.
    pub version: String,
}

/// Why a prompt did not become a turn that ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// A turn is running in the session, on behalf of somebody else.
    #[error("a prompt is already running in this session")]
    Busy,
    /// The turn could not be run or closed.
    #[error("the prompt could not be run")]
    Failed(#[source] BoxError),
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn the_first_to_stop_a_prompt_is_the_reason() {
        let client = CancellationToken::new();
        let (stopped, left) = (PromptCancel::of(&client), PromptCancel::of(&client));
        assert_eq!(stopped.cancelled().now_or_never(), None);
        stopped.cancel();
        client.cancel();
        left.cancel();
        let reason = |cancel: &PromptCancel| cancel.cancelled().now_or_never();
        assert_eq!(reason(&stopped), Some(AbortReason::User));
        assert_eq!(reason(&left), Some(AbortReason::Disposed));
    }
}
