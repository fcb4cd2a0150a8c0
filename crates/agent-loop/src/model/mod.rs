//! What a model is: one method that turns a request into a stream of chunks.

mod blocks;
pub(crate) mod contained;
pub(crate) mod offline;
pub(crate) mod scripted;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use session_core::event::{Message, StreamChunk, TurnError};
use tokio_util::sync::CancellationToken;
use tool_runtime::ToolDefinition;

/// Answers requests.
pub trait Model: fmt::Debug + Send + Sync + 'static {
    /// Where the next request goes.
    fn route(&self) -> Route;

    /// Answers one request, as a stream that ends.
    ///
    /// Indexes name the blocks of the answer, which stand in their order. A stream without a finish
    /// chunk has finished with `stop`. The first error ends the answer, and so does a panic. The
    /// stream is dropped once `cancel` is cancelled.
    fn stream(
        &self,
        request: ModelRequest,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<StreamChunk, ModelError>>;
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Who serves the model; not empty.
    pub provider: String,
    /// Which model; not empty.
    pub model: String,
    /// How many tokens it can read, where known.
    pub context_window: Option<u64>,
}

/// What a model is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The system prompt.
    pub system: Option<String>,
    /// The tools that it may call.
    pub tools: Vec<ToolDefinition>,
    /// The conversation so far, in order.
    pub messages: Vec<Arc<Message>>,
}

/// A model's failure, structured as the log keeps it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the model failed: code={}, message={}", error.code, error.message)]
pub struct ModelError {
    /// What the turn ends with.
    pub error: TurnError,
}

impl From<TurnError> for ModelError {
    fn from(error: TurnError) -> Self {
        Self { error }
    }
}

/// Waits; for no time, not at all.
async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}
