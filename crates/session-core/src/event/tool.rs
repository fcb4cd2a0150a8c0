//! Tool calls and what came of them.

use serde::{Deserialize, Serialize};

use super::message::{ContentBlock, Message, MessageSource, Role};
use super::{EventData, LogOnly, OnSurface, not_empty, sealed::Sealed, strict};
use crate::{CallId, Payload};

/// A tool call starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Number of the turn.
    pub turn: u64,
    /// Number of the step.
    pub step: u64,
    /// The provider's name for the call.
    pub call_id: CallId,
    /// The tool.
    pub name: String,
    /// Its arguments: the model's raw JSON text, valid or not.
    pub arguments: String,
}

impl EventData for ToolCall {
    const TYPE: &'static str = "tool/call";

    fn check(&self) -> Result<(), String> {
        not_empty("callId", self.call_id.as_str())?;
        not_empty("name", &self.name)
    }
}
impl LogOnly for ToolCall {}

/// A tool call has settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Number of the turn.
    pub turn: u64,
    /// Number of the step.
    pub step: u64,
    /// Exactly one tool-result block.
    #[serde(deserialize_with = "strict::object")]
    pub message: Message,
    /// What kind of failure it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
    /// Facts for a presentation; the model does not see them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Payload>,
}

/// Names a failure for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorInfo {
    /// The class of failures.
    pub name: String,
    /// The one failure.
    pub code: String,
}

impl ToolResult {
    /// The call that it answers, the answer, and whether it is a failure.
    #[must_use]
    pub fn outcome(&self) -> Option<(&CallId, &[ContentBlock], bool)> {
        match self.message.content.as_slice() {
            [
                ContentBlock::ToolResult {
                    tool_call_id,
                    content,
                    is_error,
                },
            ] => Some((tool_call_id, content, *is_error)),
            _ => None,
        }
    }
}

impl EventData for ToolResult {
    const TYPE: &'static str = "tool/result";

    fn check(&self) -> Result<(), String> {
        not_empty("message id", self.message.id.as_str())?;
        if self.message.role != Role::User {
            return Err("message role must be user".into());
        }
        let MessageSource::Tool { call_id } = &self.message.source else {
            return Err("the source of a tool result must be a tool with its callId".into());
        };
        match self.outcome() {
            Some((answered, ..)) if answered == call_id => Ok(()),
            Some(_) => Err("toolCallId must equal the callId of the source".into()),
            None => Err("a tool result holds exactly one tool-result block".into()),
        }
    }
}
impl Sealed for ToolResult {}
impl OnSurface for ToolResult {}
