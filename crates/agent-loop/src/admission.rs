//! Who may refuse a prompt.

use std::fmt;

use async_trait::async_trait;
use session_core::Session;
use session_core::event::ContentBlock;

/// Looks at a prompt before the model does.
#[async_trait]
pub trait Admission: fmt::Debug + Send + Sync + 'static {
    /// Whether the prompt may be worked on. One that may not ends its turn as
    /// [`Blocked`](session_core::event::TurnEndReason::Blocked), and its content stays out of the
    /// log.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when the turn is aborted meanwhile.
    async fn admits(&self, session: &Session, prompt: &[ContentBlock]) -> bool;
}
