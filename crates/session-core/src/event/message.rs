//! Messages: what the model reads and writes.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{EventData, OnSurface, is_object, not_empty, sealed::Sealed, strict};
use crate::{CallId, MessageId, Payload};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person, a tool, or the harness on their behalf.
    User,
    /// The model.
    Assistant,
}

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Names the message for the life of the session; never empty.
    pub id: MessageId,
    /// Who speaks.
    #[serde(deserialize_with = "strict::word")]
    pub role: Role,
    /// What is said, in order.
    pub content: Vec<ContentBlock>,
    /// Where it came from.
    pub source: MessageSource,
}

impl Message {
    /// The text blocks, joined by line breaks.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            ContentBlock::Text { text } => Some(text.as_str()),
            ContentBlock::Reasoning { .. }
            | ContentBlock::ToolCall { .. }
            | ContentBlock::ToolResult { .. }
            | ContentBlock::Other(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    fn check(&self, role: Role) -> Result<(), String> {
        not_empty("message id", self.id.as_str())?;
        not_empty("message source kind", self.source.kind())?;
        if self.role != role {
            return Err(format!("message role must be {role:?}").to_lowercase());
        }
        Ok(())
    }
}

/// A part of a message.
///
/// A block of another kind, or one that does not fit its kind, is kept verbatim as `Other`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContentBlock {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// What the model thought aloud.
    Reasoning {
        /// The text.
        text: String,
    },
    /// The model asks for a tool.
    ToolCall {
        /// The provider's name for the call.
        id: CallId,
        /// The tool.
        name: String,
        /// Its arguments as the model's raw JSON text.
        arguments: String,
    },
    /// What the tool answered.
    ToolResult {
        /// The call that it answers.
        tool_call_id: CallId,
        /// The answer.
        content: Vec<Self>,
        /// Whether it is a failure.
        is_error: bool,
    },
    /// Anything else, verbatim.
    Other(Payload),
}

impl ContentBlock {
    /// A text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
enum KnownBlock {
    Text {
        text: String,
    },
    Reasoning {
        text: String,
    },
    ToolCall {
        id: CallId,
        name: String,
        arguments: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultBlock {
    r#type: ResultWord,
    tool_call_id: CallId,
    content: Vec<ContentBlock>,
    #[serde(default)]
    is_error: bool,
}

#[derive(Serialize, Deserialize)]
enum ResultWord {
    #[serde(rename = "tool-result")]
    ToolResult,
}

impl Serialize for ContentBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let known = match self.clone() {
            Self::Text { text } => KnownBlock::Text { text },
            Self::Reasoning { text } => KnownBlock::Reasoning { text },
            Self::ToolCall {
                id,
                name,
                arguments,
            } => KnownBlock::ToolCall {
                id,
                name,
                arguments,
            },
            Self::ToolResult {
                tool_call_id,
                content,
                is_error,
            } => {
                let r#type = ResultWord::ToolResult;
                return ResultBlock {
                    r#type,
                    tool_call_id,
                    content,
                    is_error,
                }
                .serialize(serializer);
            }
            Self::Other(raw) => return raw.serialize(serializer),
        };
        known.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ContentBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The text first: what does not fit a known kind must survive, at any depth.
        let raw = Payload::deserialize(deserializer)?;
        if !is_object(&raw) {
            return Ok(Self::Other(raw));
        }
        if let Ok(known) = raw.decode::<KnownBlock>() {
            return Ok(match known {
                KnownBlock::Text { text } => Self::Text { text },
                KnownBlock::Reasoning { text } => Self::Reasoning { text },
                KnownBlock::ToolCall {
                    id,
                    name,
                    arguments,
                } => Self::ToolCall {
                    id,
                    name,
                    arguments,
                },
            });
        }
        Ok(match raw.decode::<ResultBlock>() {
            Ok(ResultBlock {
                tool_call_id,
                content,
                is_error,
                ..
            }) => Self::ToolResult {
                tool_call_id,
                content,
                is_error,
            },
            Err(_) => Self::Other(raw),
        })
    }
}

/// Where a message came from. Kinds beyond these are kept verbatim.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageSource {
    /// A person.
    User,
    /// A model.
    Model {
        /// Who serves it.
        provider: String,
        /// Which one.
        model: String,
    },
    /// A tool.
    Tool {
        /// The call that it answers.
        call_id: CallId,
    },
    /// Another origin: its kind, and the whole object.
    Other {
        /// The `kind` string.
        kind: String,
        /// The object, verbatim.
        raw: Payload,
    },
}

impl MessageSource {
    /// The `kind` string.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Self::User => "user",
            Self::Model { .. } => "model",
            Self::Tool { .. } => "tool",
            Self::Other { kind, .. } => kind,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
enum KnownSource {
    User {},
    Model { provider: String, model: String },
    Tool { call_id: CallId },
}

#[derive(Deserialize)]
struct AnySource {
    kind: String,
}

impl Serialize for MessageSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.clone() {
            Self::User => KnownSource::User {},
            Self::Model { provider, model } => KnownSource::Model { provider, model },
            Self::Tool { call_id } => KnownSource::Tool { call_id },
            Self::Other { raw, .. } => return raw.serialize(serializer),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for MessageSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Payload::deserialize(deserializer)?;
        if !is_object(&raw) {
            return Err(de::Error::custom("message source must be an object"));
        }
        Ok(match raw.decode::<KnownSource>() {
            Ok(KnownSource::User {}) => Self::User,
            Ok(KnownSource::Model { provider, model }) => Self::Model { provider, model },
            Ok(KnownSource::Tool { call_id }) => Self::Tool { call_id },
            Err(_) => {
                let any: AnySource = raw
                    .decode()
                    .map_err(|_| de::Error::custom("message source needs a kind"))?;
                Self::Other {
                    kind: any.kind,
                    raw,
                }
            }
        })
    }
}

/// Something said to the model: a prompt, a context note, or the summary that replaces older
/// messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UserMessage(pub Message);

impl EventData for UserMessage {
    const TYPE: &'static str = "user/message";

    fn check(&self) -> Result<(), String> {
        self.0.check(Role::User)
    }
}
impl Sealed for UserMessage {}
impl OnSurface for UserMessage {}

/// What one model call produced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// Number of the turn.
    pub turn: u64,
    /// Number of the step.
    pub step: u64,
    /// The message; empty content is legal and reaches no model.
    #[serde(deserialize_with = "strict::object")]
    pub message: Message,
    /// What the call cost, where the provider said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether the stream was cut short; then only what had become visible is kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

impl EventData for AssistantMessage {
    const TYPE: &'static str = "assistant/message";

    fn check(&self) -> Result<(), String> {
        self.message.check(Role::Assistant)?;
        match &self.message.source {
            MessageSource::Model { provider, model } => {
                not_empty("message source provider", provider)?;
                not_empty("message source model", model)
            }
            other => Err(format!(
                "the source of an assistant message must be a model with provider and model, \
                 not {:?}",
                other.kind()
            )),
        }
    }
}
impl Sealed for AssistantMessage {}
impl OnSurface for AssistantMessage {}

/// Token counts of one model call. The buckets do not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Input that no cache served.
    #[serde(default)]
    pub input_tokens: u64,
    /// Output, reasoning included.
    #[serde(default)]
    pub output_tokens: u64,
    /// Input that a cache served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Input that was written to a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// The part of the output that was reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_fits_no_kind_is_kept_to_the_letter() {
        let deep = format!(
            "{{\"type\":\"x\",\"v\":{}{}}}",
            "[".repeat(300),
            "]".repeat(300)
        );
        for text in [
            deep.as_str(),
            r#"{"type":"text","text":"\ud800"}"#,
            r#"{"type":"image","d":1.50}"#,
        ] {
            let block: ContentBlock = serde_json::from_str(text).unwrap();
            assert!(matches!(block, ContentBlock::Other(_)));
            assert_eq!(serde_json::to_string(&block).unwrap(), text);
        }
    }

    #[test]
    fn known_blocks_and_sources_have_the_wire_shape() {
        for text in [
            r#"{"type":"text","text":"a"}"#,
            r#"{"type":"tool-call","id":"c","name":"n","arguments":"{}"}"#,
            r#"{"type":"tool-result","toolCallId":"c","content":[{"type":"text","text":"a"}],"isError":true}"#,
        ] {
            let block: ContentBlock = serde_json::from_str(text).unwrap();
            assert!(!matches!(block, ContentBlock::Other(_)), "{text}");
            assert_eq!(serde_json::to_string(&block).unwrap(), text);
        }
        for text in [
            r#"{"kind":"user"}"#,
            r#"{"kind":"model","provider":"p","model":"m"}"#,
            r#"{"kind":"tool","callId":"c"}"#,
            r#"{"kind":"plugin","plugin":"x"}"#,
        ] {
            let source: MessageSource = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&source).unwrap(), text);
        }
    }
}
