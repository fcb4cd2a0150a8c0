//! Pieces of a model's stream, as they arrive.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::message::{ContentBlock, Usage};
use super::turn::TurnError;
use super::{EventData, LogOnly, is_object};
use crate::{CallId, Payload};

/// One piece of the stream that becomes an assistant message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssistantChunk {
    /// Number of the turn.
    pub turn: u64,
    /// Number of the step.
    pub step: u64,
    /// The piece.
    pub chunk: StreamChunk,
}

impl EventData for AssistantChunk {
    const TYPE: &'static str = "assistant/chunk";
}
impl LogOnly for AssistantChunk {}

/// What kind of block a stream opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockType {
    /// Plain text.
    Text,
    /// Thought aloud.
    Reasoning,
    /// A call of a tool.
    ToolCall,
}

/// A piece of a model's stream. `index` names the block that the piece belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamChunk {
    /// A block begins.
    BlockStart {
        /// Which.
        index: u64,
        /// Of what kind.
        block_type: BlockType,
    },
    /// Text goes on.
    TextDelta {
        /// Of which block.
        index: u64,
        /// The next piece.
        text: String,
    },
    /// Thought goes on.
    ReasoningDelta {
        /// Of which block.
        index: u64,
        /// The next piece.
        text: String,
    },
    /// A tool call goes on.
    ToolCallDelta {
        /// Of which block.
        index: u64,
        /// The provider's name for the call.
        id: CallId,
        /// The tool, where this piece names it.
        name: Option<String>,
        /// The next piece of the arguments.
        arguments_delta: String,
    },
    /// A block is whole.
    BlockEnd {
        /// Which.
        index: u64,
        /// All of it.
        block: ContentBlock,
    },
    /// What the call cost so far.
    Usage {
        /// The counts.
        usage: Usage,
    },
    /// The stream is over.
    Finish {
        /// Why.
        reason: ChunkFinish,
    },
    /// A piece of another kind, verbatim.
    Other(Payload),
}

/// Why a stream ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ChunkFinish {
    /// The model had said all.
    Stop,
    /// The model waits for tools.
    ToolCalls,
    /// The output ceiling.
    MaxTokens,
    /// The provider failed.
    Error {
        /// How.
        failure: TurnError,
    },
    /// The provider gave up on request.
    Aborted {
        /// How.
        failure: TurnError,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
enum Known {
    BlockStart {
        index: u64,
        block_type: BlockType,
    },
    TextDelta {
        index: u64,
        text: String,
    },
    ReasoningDelta {
        index: u64,
        text: String,
    },
    ToolCallDelta {
        index: u64,
        id: CallId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        arguments_delta: String,
    },
    Usage {
        usage: Usage,
    },
    Finish {
        reason: ChunkFinish,
    },
}

// Apart from the others, because a block may hold JSON that only its text keeps.
#[derive(Serialize, Deserialize)]
struct Ended {
    r#type: EndedWord,
    index: u64,
    block: ContentBlock,
}

#[derive(Serialize, Deserialize)]
enum EndedWord {
    #[serde(rename = "block-end")]
    BlockEnd,
}

impl Serialize for StreamChunk {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.clone() {
            Self::BlockStart { index, block_type } => Known::BlockStart { index, block_type },
            Self::TextDelta { index, text } => Known::TextDelta { index, text },
            Self::ReasoningDelta { index, text } => Known::ReasoningDelta { index, text },
            Self::ToolCallDelta {
                index,
                id,
                name,
                arguments_delta,
            } => Known::ToolCallDelta {
                index,
                id,
                name,
                arguments_delta,
            },
            Self::Usage { usage } => Known::Usage { usage },
            Self::Finish { reason } => Known::Finish { reason },
            Self::BlockEnd { index, block } => {
                let r#type = EndedWord::BlockEnd;
                return Ended {
                    r#type,
                    index,
                    block,
                }
                .serialize(serializer);
            }
            Self::Other(raw) => return raw.serialize(serializer),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for StreamChunk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Payload::deserialize(deserializer)?;
        if !is_object(&raw) {
            return Ok(Self::Other(raw));
        }
        if let Ok(known) = raw.decode::<Known>() {
            return Ok(match known {
                Known::BlockStart { index, block_type } => Self::BlockStart { index, block_type },
                Known::TextDelta { index, text } => Self::TextDelta { index, text },
                Known::ReasoningDelta { index, text } => Self::ReasoningDelta { index, text },
                Known::ToolCallDelta {
                    index,
                    id,
                    name,
                    arguments_delta,
                } => Self::ToolCallDelta {
                    index,
                    id,
                    name,
                    arguments_delta,
                },
                Known::Usage { usage } => Self::Usage { usage },
                Known::Finish { reason } => Self::Finish { reason },
            });
        }
        Ok(match raw.decode::<Ended>() {
            Ok(Ended { index, block, .. }) => Self::BlockEnd { index, block },
            Err(_) => Self::Other(raw),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> StreamChunk {
        let chunk: StreamChunk = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&chunk).unwrap(), text);
        chunk
    }

    #[test]
    fn known_chunks_have_the_wire_shape() {
        for text in [
            r#"{"type":"block-start","index":0,"blockType":"text"}"#,
            r#"{"type":"block-start","index":1,"blockType":"reasoning"}"#,
            r#"{"type":"block-start","index":2,"blockType":"tool-call"}"#,
            r#"{"type":"text-delta","index":0,"text":"a"}"#,
            r#"{"type":"reasoning-delta","index":0,"text":"a"}"#,
            r#"{"type":"tool-call-delta","index":0,"id":"c","argumentsDelta":"{"}"#,
            r#"{"type":"tool-call-delta","index":0,"id":"c","name":"n","argumentsDelta":""}"#,
            r#"{"type":"block-end","index":0,"block":{"type":"text","text":"a"}}"#,
            r#"{"type":"block-end","index":0,"block":{"type":"image","d":1.50}}"#,
            r#"{"type":"usage","usage":{"inputTokens":1,"outputTokens":2,"cacheReadTokens":3,"cacheWriteTokens":4,"reasoningTokens":5}}"#,
            r#"{"type":"finish","reason":{"kind":"stop"}}"#,
            r#"{"type":"finish","reason":{"kind":"tool-calls"}}"#,
            r#"{"type":"finish","reason":{"kind":"max-tokens"}}"#,
            r#"{"type":"finish","reason":{"kind":"error","failure":{"message":"m","code":"C"}}}"#,
            r#"{"type":"finish","reason":{"kind":"aborted","failure":{"message":"m","code":"C"}}}"#,
        ] {
            assert!(!matches!(read(text), StreamChunk::Other(_)), "{text}");
        }
    }

    #[test]
    fn a_chunk_of_another_kind_is_kept_to_the_letter() {
        for text in [
            r#"{"type":"finish","reason":{"kind":"another"}}"#,
            r#"{"type":"text-delta","index":0,"text":"\ud83d"}"#,
            r#"{"type":"acme","n":1.50}"#,
            r#"["text-delta",0,"a"]"#,
            "1",
        ] {
            assert!(matches!(read(text), StreamChunk::Other(_)), "{text}");
        }
    }
}
