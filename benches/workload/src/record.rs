//! The typed values that every peer is given, in plain serde structs.
//!
//! Their JSON equals the payloads of a Minutebook log, so a peer that stores JSON stores the same
//! bytes.

use anyhow::{Context as _, Result};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Record {
    TurnStart(Turn),
    StepStart(Step),
    Context(Context),
    User(Message),
    Assistant(Assistant),
    Chunk(Chunk),
    Call(Call),
    Result(ToolResult),
    Todos(Todos),
    StepEnd(Step),
    TurnEnd(TurnEnd),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    pub turn: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub turn: u64,
    pub step: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Context {
    pub provider: String,
    pub model: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnEnd {
    pub turn: u64,
    pub reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    pub kind: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    pub id: String,
    pub role: String,
    pub content: Vec<Block>,
    pub source: Source,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum Block {
    Text {
        text: String,
    },
    ToolCall {
        id: String,
        name: String,
        arguments: String,
    },
    ToolResult {
        tool_call_id: String,
        content: Vec<Block>,
        is_error: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum Source {
    User {},
    Model { provider: String, model: String },
    Tool { call_id: String },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assistant {
    pub turn: u64,
    pub step: u64,
    pub message: Message,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    pub turn: u64,
    pub step: u64,
    pub chunk: Delta,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Delta {
    TextDelta { index: u64, text: String },
    ReasoningDelta { index: u64, text: String },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    pub turn: u64,
    pub step: u64,
    pub call_id: String,
    pub name: String,
    pub arguments: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    pub turn: u64,
    pub step: u64,
    pub message: Message,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Todos {
    pub todos: Vec<TodoItem>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TodoItem {
    pub content: String,
    pub status: String,
}

impl Record {
    /// The kind of a task list.
    pub const TODOS: &str = "todo/write";

    /// The type string of its event.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::TurnStart(_) => "turn/start",
            Self::StepStart(_) => "step/start",
            Self::Context(_) => "request/context",
            Self::User(_) => "user/message",
            Self::Assistant(_) => "assistant/message",
            Self::Chunk(_) => "assistant/chunk",
            Self::Call(_) => "tool/call",
            Self::Result(_) => "tool/result",
            Self::Todos(_) => Self::TODOS,
            Self::StepEnd(_) => "step/end",
            Self::TurnEnd(_) => "turn/end",
        }
    }

    /// The payload as JSON.
    #[must_use]
    pub fn json(&self) -> String {
        self.serialized(Json).expect("plain structs serialize")
    }

    /// The payload as a JSON value.
    #[must_use]
    pub fn value(&self) -> Value {
        self.serialized(Tree).expect("plain structs serialize")
    }

    fn serialized<F: Format>(&self, format: F) -> serde_json::Result<F::Output> {
        match self {
            Self::TurnStart(payload) => format.serialize(payload),
            Self::StepStart(payload) | Self::StepEnd(payload) => format.serialize(payload),
            Self::Context(payload) => format.serialize(payload),
            Self::User(payload) => format.serialize(payload),
            Self::Assistant(payload) => format.serialize(payload),
            Self::Chunk(payload) => format.serialize(payload),
            Self::Call(payload) => format.serialize(payload),
            Self::Result(payload) => format.serialize(payload),
            Self::Todos(payload) => format.serialize(payload),
            Self::TurnEnd(payload) => format.serialize(payload),
        }
    }

    /// Reads a payload from JSON.
    ///
    /// # Errors
    ///
    /// Returns an error when it is not of that kind.
    pub fn from_json(kind: &str, json: &str) -> Result<Self> {
        Self::read(kind, &mut serde_json::Deserializer::from_str(json))
    }

    /// Reads a payload from a JSON value.
    ///
    /// # Errors
    ///
    /// Returns an error when it is not of that kind.
    pub fn from_value(kind: &str, value: Value) -> Result<Self> {
        Self::read(kind, value)
    }

    fn read<'de, D>(kind: &str, from: D) -> Result<Self>
    where
        D: Deserializer<'de, Error = serde_json::Error>,
    {
        Ok(match kind {
            "turn/start" => Self::TurnStart(Turn::deserialize(from)?),
            "step/start" => Self::StepStart(Step::deserialize(from)?),
            "request/context" => Self::Context(Context::deserialize(from)?),
            "user/message" => Self::User(Message::deserialize(from)?),
            "assistant/message" => Self::Assistant(Assistant::deserialize(from)?),
            "assistant/chunk" => Self::Chunk(Chunk::deserialize(from)?),
            "tool/call" => Self::Call(Call::deserialize(from)?),
            "tool/result" => Self::Result(ToolResult::deserialize(from)?),
            Self::TODOS => Self::Todos(Todos::deserialize(from)?),
            "step/end" => Self::StepEnd(Step::deserialize(from)?),
            "turn/end" => Self::TurnEnd(TurnEnd::deserialize(from)?),
            _ => anyhow::bail!("unknown kind {kind}"),
        })
    }

    /// Kind and payload in one text, for peers that keep one text an event.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{} {}", self.kind(), self.json())
    }

    /// Reads what [`Record::line`] wrote.
    ///
    /// # Errors
    ///
    /// Returns an error when it is no such text.
    pub fn from_line(line: &str) -> Result<Self> {
        let (kind, json) = line.split_once(' ').context("a line is a kind and JSON")?;
        Self::from_json(kind, json)
    }

    /// The length of the event as a line of a JSON log: payload and envelope.
    #[must_use]
    pub fn wire_length(&self) -> usize {
        let surface = match self {
            Self::User(_) | Self::Assistant(_) | Self::Result(_) => {
                r#","surfaceOp":"append""#.len()
            }
            _ => 0,
        };
        let envelope = r#"{"type":"","seq":123456,"time":1764538936000,"data":}"#.len();
        envelope + self.kind().len() + self.json().len() + surface
    }
}

/// What a payload is serialized to.
trait Format {
    type Output;

    fn serialize<T: Serialize>(self, payload: &T) -> serde_json::Result<Self::Output>;
}

struct Json;

impl Format for Json {
    type Output = String;

    fn serialize<T: Serialize>(self, payload: &T) -> serde_json::Result<String> {
        serde_json::to_string(payload)
    }
}

struct Tree;

impl Format for Tree {
    type Output = Value;

    fn serialize<T: Serialize>(self, payload: &T) -> serde_json::Result<Value> {
        serde_json::to_value(payload)
    }
}
