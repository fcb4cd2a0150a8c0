//! What the agent needs from the harness that it belongs to.

use async_trait::async_trait;
use session_core::event::{ContentBlock, TurnEndReason};
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
    /// cancelled it closes the turn in the log and returns soon.
    ///
    /// # Errors
    ///
    /// Returns [`PromptError`] when no turn was run, or when its end is not in the log.
    async fn prompt(
        &self,
        session: &Session,
        content: Vec<ContentBlock>,
        cancel: CancellationToken,
    ) -> Result<TurnEndReason, PromptError>;
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
