//! What a tool is, what it is given, and what it gives back.

use std::path::PathBuf;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use session_core::event::{ContentBlock, ErrorInfo};
use session_core::{CallId, Payload, Session};
use tokio_util::sync::CancellationToken;

/// Something that an agent can call.
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// What the model is told of the tool. The same at every call, so that a provider's prompt
    /// cache stays warm.
    fn definition(&self) -> ToolDefinition;

    /// Whether this call may run beside others. Asked with arguments that fit the schema.
    fn is_parallel_safe(&self, _arguments: &Value) -> bool {
        false
    }

    /// How a person is shown the call. Asked with whatever the model sent, so it may not fit the
    /// schema; `None` leaves it to the registry.
    fn present(&self, _arguments: &Value) -> Option<CallPresentation> {
        None
    }

    /// Does the work, with arguments that fit the schema.
    ///
    /// # Errors
    ///
    /// Returns what the model is to read instead of a result.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped once `context.cancel` is cancelled; a tool that must not stop
    /// half-way spawns its work.
    async fn run(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> Result<ToolSuccess, ToolFailure>;
}

/// What a model is told of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The name that it is called by.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: Value,
}

impl ToolDefinition {
    /// A definition.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters,
        }
    }
}

/// Who calls, and from where.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The session that owns the call; none for a caller that is no agent.
    pub session: Option<Session>,
    /// The provider's name for the call.
    pub call_id: CallId,
    /// Cancelled when the result is no longer wanted.
    pub cancel: CancellationToken,
}

impl ToolContext {
    /// The context of a call that a session owns.
    #[must_use]
    pub fn owned(session: Session, call_id: impl Into<CallId>, cancel: CancellationToken) -> Self {
        Self {
            session: Some(session),
            call_id: call_id.into(),
            cancel,
        }
    }

    /// The context of a call that no session owns.
    #[must_use]
    pub fn ownerless(call_id: impl Into<CallId>) -> Self {
        Self {
            session: None,
            call_id: call_id.into(),
            cancel: CancellationToken::new(),
        }
    }
}

/// What a tool gives back: a canonical value for programs, and what the model reads.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSuccess {
    /// For programs.
    pub value: Value,
    /// For the model.
    pub content: Vec<ContentBlock>,
    /// For a presentation; the model does not see it.
    pub meta: Option<Payload>,
}

impl ToolSuccess {
    /// A value that the model reads as one text.
    #[must_use]
    pub fn text(value: Value, text: impl Into<String>) -> Self {
        Self {
            value,
            content: vec![ContentBlock::text(text)],
            meta: None,
        }
    }
}

/// Why a tool gave nothing back, in words that the model can act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolFailure {
    /// For the model; it reads `Error: ` and this.
    pub message: String,
    /// For programs.
    pub info: Option<ErrorInfo>,
}

impl ToolFailure {
    /// A failure without a code.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            info: None,
        }
    }

    /// A failure with a code.
    #[must_use]
    pub fn coded(code: &str, message: impl Into<String>) -> Self {
        let info = ErrorInfo {
            name: "ToolError".into(),
            code: code.into(),
        };
        Self {
            message: message.into(),
            info: Some(info),
        }
    }
}

/// How a call ended: what the log keeps of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutcome {
    /// What the model reads.
    pub content: Vec<ContentBlock>,
    /// Whether it is a failure.
    pub is_error: bool,
    /// The canonical value of a success.
    pub value: Option<Value>,
    /// What kind of failure it is.
    pub error: Option<ErrorInfo>,
    /// Facts for a presentation.
    pub meta: Option<Payload>,
}

impl ToolOutcome {
    /// The text that the model reads.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            ContentBlock::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl From<ToolFailure> for ToolOutcome {
    fn from(failure: ToolFailure) -> Self {
        let ToolFailure { message, info } = failure;
        Self {
            content: vec![ContentBlock::text(format!("Error: {message}"))],
            is_error: true,
            value: None,
            error: info,
            meta: None,
        }
    }
}

impl From<Result<ToolSuccess, ToolFailure>> for ToolOutcome {
    fn from(result: Result<ToolSuccess, ToolFailure>) -> Self {
        match result {
            Ok(ToolSuccess {
                value,
                content,
                meta,
            }) => Self {
                content,
                is_error: false,
                value: Some(value),
                error: None,
                meta,
            },
            Err(failure) => failure.into(),
        }
    }
}

/// How a person is shown a call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallPresentation {
    /// One line.
    pub title: String,
    /// What sort of work it is.
    pub kind: ToolKind,
    /// The arguments, as far as they are worth showing.
    pub raw_input: Option<Value>,
    /// Files that it touches.
    pub locations: Vec<PathBuf>,
}

/// What sort of work a call does; the kinds that editors have icons for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ToolKind {
    /// Reads files or data.
    Read,
    /// Changes files.
    Edit,
    /// Removes files.
    Delete,
    /// Moves files.
    Move,
    /// Looks for something.
    Search,
    /// Runs a program.
    Execute,
    /// Thinks or plans.
    Think,
    /// Gets something from outside.
    Fetch,
    /// Anything else.
    #[default]
    Other,
}
