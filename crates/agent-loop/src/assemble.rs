//! Chunks into blocks.

use std::collections::{BTreeMap, HashSet};

use session_core::event::{BlockType, ChunkFinish, ContentBlock, StreamChunk, TurnError, Usage};
use session_core::{CallId, IdSource};

/// The name of a call whose model gave none. No tool can have been meant.
const UNNAMED: &str = "unnamed";

/// Puts a stream of chunks together.
///
/// The blocks stand in the order of their indexes. The first `block-end` of an index is the block;
/// whatever the index brings after it is ignored, and so is a delta of another kind than its block.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    blocks: BTreeMap<u64, Building>,
    usage: Option<Usage>,
    finish: Option<Finish>,
}

/// Why the stream ended, by its own account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The model had said all, or waits for tools.
    Done,
    /// The output ceiling.
    MaxTokens,
    /// The provider failed.
    Failed(TurnError),
}

#[derive(Debug)]
enum Building {
    Text(String),
    Reasoning(String),
    ToolCall {
        id: String,
        name: String,
        arguments: String,
    },
    Ended(ContentBlock),
}

/// What a stream adds up to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Assembled {
    pub(crate) content: Vec<ContentBlock>,
    pub(crate) usage: Option<Usage>,
    pub(crate) finish: Finish,
}

/// A tool call as the model asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

impl Building {
    fn new(block_type: BlockType) -> Self {
        match block_type {
            BlockType::Text => Self::Text(String::new()),
            BlockType::Reasoning => Self::Reasoning(String::new()),
            BlockType::ToolCall => Self::ToolCall {
                id: String::new(),
                name: String::new(),
                arguments: String::new(),
            },
        }
    }

    /// The block, closed from its deltas where it never ended; none where nothing came of it.
    fn close(self) -> Option<ContentBlock> {
        match self {
            Self::Text(text) => (!text.is_empty()).then_some(ContentBlock::Text { text }),
            Self::Reasoning(text) => (!text.is_empty()).then_some(ContentBlock::Reasoning { text }),
            Self::ToolCall {
                id,
                name,
                arguments,
            } => {
                let empty = id.is_empty() && name.is_empty() && arguments.is_empty();
                (!empty).then(|| ContentBlock::ToolCall {
                    id: id.into(),
                    name,
                    arguments,
                })
            }
            Self::Ended(block) => Some(block),
        }
    }
}

impl Assembler {
    pub(crate) fn push(&mut self, chunk: StreamChunk) {
        match chunk {
            StreamChunk::BlockStart { index, block_type } => {
                self.block(index, block_type);
            }
            StreamChunk::TextDelta { index, text } => {
                if let Building::Text(so_far) = self.block(index, BlockType::Text) {
                    so_far.push_str(&text);
                }
            }
            StreamChunk::ReasoningDelta { index, text } => {
                if let Building::Reasoning(so_far) = self.block(index, BlockType::Reasoning) {
                    so_far.push_str(&text);
                }
            }
            StreamChunk::ToolCallDelta {
                index,
                id: delta_id,
                name: delta_name,
                arguments_delta,
            } => {
                if let Building::ToolCall {
                    id,
                    name,
                    arguments,
                } = self.block(index, BlockType::ToolCall)
                {
                    if id.is_empty() {
                        delta_id.as_str().clone_into(id);
                    }
                    if name.is_empty() {
                        *name = delta_name.unwrap_or_default();
                    }
                    arguments.push_str(&arguments_delta);
                }
            }
            StreamChunk::BlockEnd { index, block } => {
                let building = self
                    .blocks
                    .entry(index)
                    .or_insert_with(|| Building::Text(String::new()));
                if !matches!(building, Building::Ended(_)) {
                    *building = Building::Ended(block);
                }
            }
            StreamChunk::Usage { usage } => self.usage = Some(usage),
            StreamChunk::Finish { reason } => {
                self.finish.get_or_insert_with(|| finish_of(reason));
            }
            // Of another provider's vocabulary: logged, and nothing to assemble.
            _ => {}
        }
    }

    fn block(&mut self, index: u64, block_type: BlockType) -> &mut Building {
        self.blocks
            .entry(index)
            .or_insert_with(|| Building::new(block_type))
    }

    /// The whole answer, in which every call has a name, and an id of its own.
    pub(crate) fn finish(self, ids: &dyn IdSource) -> Assembled {
        let mut content: Vec<_> = self
            .blocks
            .into_values()
            .filter_map(Building::close)
            .collect();
        let mut taken = HashSet::new();
        for block in &mut content {
            if let ContentBlock::ToolCall { id, name, .. } = block {
                while id.as_str().is_empty() || !taken.insert(id.clone()) {
                    *id = ids.mint().into();
                }
                if name.is_empty() {
                    UNNAMED.clone_into(name);
                }
            }
        }
        Assembled {
            content,
            usage: self.usage,
            finish: self.finish.unwrap_or(Finish::Done),
        }
    }
}

fn finish_of(reason: ChunkFinish) -> Finish {
    match reason {
        ChunkFinish::MaxTokens => Finish::MaxTokens,
        ChunkFinish::Error { failure } | ChunkFinish::Aborted { failure } => {
            Finish::Failed(failure)
        }
        // `stop`, `tool-calls`, and what later versions call a good end.
        _ => Finish::Done,
    }
}

impl Assembled {
    /// The calls, in order.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let calls = self.content.iter().filter_map(|block| match block {
            ContentBlock::ToolCall {
                id,
                name,
                arguments,
            } => Some(Call {
                id: id.clone(),
                name: name.clone(),
                arguments: arguments.clone(),
            }),
            _ => None,
        });
        calls.collect()
    }

    /// Drops the calls, which then are not run.
    pub(crate) fn drop_calls(&mut self) {
        self.content
            .retain(|block| !matches!(block, ContentBlock::ToolCall { .. }));
    }

    /// Drops everything but the text and reasoning that a person can have read.
    pub(crate) fn keep_visible(&mut self) {
        self.content.retain(|block| match block {
            ContentBlock::Text { text } | ContentBlock::Reasoning { text } => {
                !text.trim().is_empty()
            }
            _ => false,
        });
    }
}

#[cfg(test)]
mod tests {
    use session_core::CountedIds;

    use super::*;

    fn assembled(chunks: impl IntoIterator<Item = StreamChunk>) -> Assembled {
        let mut assembler = Assembler::default();
        chunks.into_iter().for_each(|chunk| assembler.push(chunk));
        assembler.finish(&CountedIds::new("minted"))
    }

    fn text(index: u64, text: &str) -> StreamChunk {
        let text = text.to_owned();
        StreamChunk::TextDelta { index, text }
    }

    fn end(index: u64, block: ContentBlock) -> StreamChunk {
        StreamChunk::BlockEnd { index, block }
    }

    fn call(id: &str, name: &str, arguments: &str) -> ContentBlock {
        ContentBlock::ToolCall {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
        }
    }

    fn call_delta(index: u64, id: &str, name: Option<&str>, arguments: &str) -> StreamChunk {
        StreamChunk::ToolCallDelta {
            index,
            id: id.into(),
            name: name.map(str::to_owned),
            arguments_delta: arguments.into(),
        }
    }

    #[test]
    fn the_first_end_of_a_block_wins_and_stragglers_are_ignored() {
        let content = assembled([
            text(0, "draft"),
            end(0, ContentBlock::text("final")),
            text(0, " late"),
            end(0, ContentBlock::text("other")),
        ])
        .content;
        assert_eq!(content, [ContentBlock::text("final")]);
    }

    #[test]
    fn blocks_that_never_ended_are_closed_from_their_deltas() {
        let content = assembled([
            call_delta(1, "c", Some("say"), "{\"a\""),
            text(0, "Hel"),
            text(0, "lo"),
            call_delta(1, "", None, ":1}"),
        ])
        .content;
        assert_eq!(
            content,
            [ContentBlock::text("Hello"), call("c", "say", "{\"a\":1}")]
        );
    }

    #[test]
    fn a_block_without_content_that_never_ended_is_no_block() {
        for block_type in [BlockType::Text, BlockType::Reasoning, BlockType::ToolCall] {
            let start = StreamChunk::BlockStart {
                index: 0,
                block_type,
            };
            assert_eq!(assembled([start]).content, []);
        }
    }

    #[test]
    fn a_delta_of_another_kind_does_not_touch_its_block() {
        let reasoning = StreamChunk::ReasoningDelta {
            index: 0,
            text: "hm".into(),
        };
        let content = assembled([text(0, "a"), reasoning, call_delta(0, "c", None, "{}")]).content;
        assert_eq!(content, [ContentBlock::text("a")]);
    }

    #[test]
    fn empty_and_repeated_call_ids_are_replaced() {
        let content = assembled([
            end(0, call("c", "a", "")),
            end(1, call("c", "b", "")),
            end(2, call("", "", "")),
            end(3, call("minted-1", "d", "")),
        ])
        .content;
        assert_eq!(
            content,
            [
                call("c", "a", ""),
                call("minted-1", "b", ""),
                call("minted-2", "unnamed", ""),
                call("minted-3", "d", ""),
            ]
        );
    }

    #[test]
    fn a_stream_without_a_finish_is_done_and_the_first_finish_wins() {
        assert_eq!(assembled([]).finish, Finish::Done);
        let finish = |reason| StreamChunk::Finish { reason };
        let both = [
            finish(ChunkFinish::MaxTokens),
            finish(ChunkFinish::ToolCalls),
        ];
        assert_eq!(assembled(both).finish, Finish::MaxTokens);
    }

    #[test]
    fn only_text_and_reasoning_that_is_not_blank_is_visible() {
        let mut assembled = assembled([
            end(0, ContentBlock::Reasoning { text: "hm".into() }),
            text(1, " \n"),
            text(2, "a"),
            call_delta(3, "c", Some("say"), "{"),
        ]);
        assembled.keep_visible();
        let reasoning = ContentBlock::Reasoning { text: "hm".into() };
        assert_eq!(assembled.content, [reasoning, ContentBlock::text("a")]);
    }
}
