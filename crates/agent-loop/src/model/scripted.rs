//! A model that answers from a script.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use serde::Deserialize;
use session_core::Payload;
use session_core::event::{ChunkFinish, ContentBlock, StreamChunk, TurnError, Usage};
use tokio_util::sync::CancellationToken;

use super::{Model, ModelError, ModelRequest, Route, blocks};

/// Answers each request with the next response of a script, whatever the request says.
///
/// The place in the script belongs to the model: all sessions that share one share it. Past the last
/// response the answer is an error with the code `SCRIPT_EXHAUSTED`, unless the script says `repeat`.
///
/// # The script
///
/// ```json
/// {
///   "responses": [
///     {
///       "reasoning": "They greet me.",
///       "text": "Let me look.",
///       "tool_calls": [{ "name": "look", "arguments": { "at": "it" }, "id": "call-1" }],
///       "usage": { "inputTokens": 12, "outputTokens": 5 },
///       "delay_ms": 10,
///       "chunk_delay_ms": 1
///     },
///     { "text": "Half an ans", "finish": "max-tokens" },
///     { "text": "I was going to", "error": { "message": "overloaded", "code": "OVERLOADED" } },
///     { "chunks": [{ "type": "text-delta", "index": 0, "text": "raw" }] }
///   ],
///   "repeat": false
/// }
/// ```
///
/// Every field may be left out. `arguments` that are a string are sent as they are, JSON or not. An
/// `id` that is left out counts the responses so far and the calls of this one. `finish` is `stop`,
/// `tool-calls` or `max-tokens`, by default what fits. An `error` ends the response after its
/// chunks. `chunks` are sent as they are and take the place of `reasoning`, `text`, `tool_calls`,
/// `usage` and `finish`. The delays are milliseconds before the first chunk, and before each.
#[derive(Debug)]
pub struct ScriptedModel {
    script: Script,
    next: AtomicUsize,
}

/// Why a text is no script.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The file could not be read.
    #[error("could not read the script {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file holds no script.
    #[error("{} is no script", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: Box<Self>,
    },
    /// Something does not fit; the source says what, with line and column.
    #[error("the script does not fit")]
    Shape {
        /// What, and where.
        source: serde_json::Error,
    },
    /// A response has `chunks` beside what they take the place of.
    #[error("responses[{response}]: chunks and {field} exclude each other")]
    ChunksAnd {
        /// Which response, from 0.
        response: usize,
        /// The other field.
        field: &'static str,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    responses: Vec<Response>,
    #[serde(default)]
    repeat: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Response {
    reasoning: Option<String>,
    text: Option<String>,
    #[serde(default)]
    tool_calls: Vec<ScriptedCall>,
    chunks: Option<Vec<StreamChunk>>,
    finish: Option<ScriptedFinish>,
    error: Option<ScriptedError>,
    usage: Option<ScriptedUsage>,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    chunk_delay_ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedCall {
    name: String,
    arguments: Option<Payload>,
    id: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ScriptedFinish {
    Stop,
    ToolCalls,
    MaxTokens,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedError {
    message: String,
    code: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScriptedUsage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    cache_read_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
}

impl ScriptedModel {
    /// Reads a script.
    ///
    /// # Errors
    ///
    /// Returns [`ScriptError`], which says what does not fit and where.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        let script: Script =
            serde_json::from_str(text).map_err(|source| ScriptError::Shape { source })?;
        for (response, parts) in script.responses.iter().enumerate() {
            if let Some(field) = parts.beside_chunks() {
                return Err(ScriptError::ChunksAnd { response, field });
            }
        }
        Ok(Self {
            script,
            next: AtomicUsize::new(0),
        })
    }

    /// Reads a script from a file.
    ///
    /// # Errors
    ///
    /// Returns [`ScriptError`], which names the file, and says what does not fit and where.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ScriptError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|source| ScriptError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::from_json(&text).map_err(|error| ScriptError::File {
            path: path.to_owned(),
            source: Box::new(error),
        })
    }

    /// The next response, and how many there were before it.
    fn next(&self) -> Option<(usize, &Response)> {
        let Script { responses, repeat } = &self.script;
        let before = self.next.fetch_add(1, Ordering::Relaxed);
        let place = if *repeat {
            before.checked_rem(responses.len())?
        } else {
            before
        };
        Some((before, responses.get(place)?))
    }
}

impl Response {
    fn beside_chunks(&self) -> Option<&'static str> {
        self.chunks.as_ref()?;
        let others = [
            ("reasoning", self.reasoning.is_some()),
            ("text", self.text.is_some()),
            ("tool_calls", !self.tool_calls.is_empty()),
            ("usage", self.usage.is_some()),
            ("finish", self.finish.is_some()),
        ];
        others
            .into_iter()
            .find_map(|(field, given)| given.then_some(field))
    }

    fn chunks(&self, before: usize) -> Vec<StreamChunk> {
        if let Some(chunks) = &self.chunks {
            return chunks.clone();
        }
        let reasoning = self
            .reasoning
            .iter()
            .map(|text| ContentBlock::Reasoning { text: text.clone() });
        let text = self.text.iter().map(ContentBlock::text);
        let calls = self.tool_calls.iter().enumerate().map(|(nth, call)| {
            let id = call.id.clone();
            ContentBlock::ToolCall {
                id: id
                    .unwrap_or_else(|| format!("call-{}-{}", before + 1, nth + 1))
                    .into(),
                name: call.name.clone(),
                arguments: call.arguments.as_ref().map(raw).unwrap_or_default(),
            }
        });
        let blocks = reasoning.chain(text).chain(calls);
        let mut chunks: Vec<_> = (0..)
            .zip(blocks)
            .flat_map(|(index, block)| blocks::chunks(index, block))
            .collect();
        chunks.extend(self.usage.map(|usage| StreamChunk::Usage {
            usage: usage.into(),
        }));
        if self.error.is_none() || self.finish.is_some() {
            let reason = self.finish();
            chunks.push(StreamChunk::Finish { reason });
        }
        chunks
    }

    fn finish(&self) -> ChunkFinish {
        match self.finish {
            Some(ScriptedFinish::Stop) => ChunkFinish::Stop,
            Some(ScriptedFinish::ToolCalls) => ChunkFinish::ToolCalls,
            Some(ScriptedFinish::MaxTokens) => ChunkFinish::MaxTokens,
            None if self.tool_calls.is_empty() => ChunkFinish::Stop,
            None => ChunkFinish::ToolCalls,
        }
    }

    fn failure(&self) -> Option<ModelError> {
        let ScriptedError { message, code } = self.error.as_ref()?;
        let code = code.as_deref().unwrap_or("UNKNOWN");
        Some(TurnError::coded(code, message).into())
    }
}

/// A string as its text, any other value as its JSON.
fn raw(arguments: &Payload) -> String {
    arguments
        .decode()
        .unwrap_or_else(|_| arguments.as_str().to_owned())
}

impl From<ScriptedUsage> for Usage {
    fn from(usage: ScriptedUsage) -> Self {
        let ScriptedUsage {
            input_tokens,
            output_tokens,
            cache_read_tokens,
            cache_write_tokens,
            reasoning_tokens,
        } = usage;
        Self {
            input_tokens,
            output_tokens,
            cache_read_tokens,
            cache_write_tokens,
            reasoning_tokens,
        }
    }
}

impl Model for ScriptedModel {
    fn route(&self) -> Route {
        Route {
            provider: "scripted".into(),
            model: "script".into(),
            context_window: None,
        }
    }

    fn stream(
        &self,
        _request: ModelRequest,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<StreamChunk, ModelError>> {
        let Some((before, response)) = self.next() else {
            let length = self.script.responses.len();
            let message = format!("the script has no response left: responses={length}");
            let error = TurnError::coded("SCRIPT_EXHAUSTED", message);
            return stream::iter([Err(error.into())]).boxed();
        };
        let chunks = response.chunks(before).into_iter().map(Ok);
        let items: Vec<_> = chunks.chain(response.failure().map(Err)).collect();
        let delay = Duration::from_millis(response.delay_ms);
        let chunk_delay = Duration::from_millis(response.chunk_delay_ms);
        let paced = stream::iter(items).enumerate().then(move |(nth, item)| {
            let first = if nth == 0 { delay } else { Duration::ZERO };
            async move {
                super::pause(first + chunk_delay).await;
                item
            }
        });
        paced.take_until(cancel.cancelled_owned()).boxed()
    }
}
