//! Whole blocks as the chunks that stream them.

use session_core::CallId;
use session_core::event::{BlockType, ContentBlock, StreamChunk};

/// How many characters of arguments one delta holds.
const PIECE: usize = 24;

/// The chunks of one block, in small deltas. Blocks that no delta can carry come whole.
pub(super) fn chunks(index: u64, block: ContentBlock) -> Vec<StreamChunk> {
    let start = |block_type| StreamChunk::BlockStart { index, block_type };
    let mut chunks = match &block {
        ContentBlock::Text { text } => {
            let deltas = words(text).map(|text| StreamChunk::TextDelta { index, text });
            std::iter::once(start(BlockType::Text))
                .chain(deltas)
                .collect()
        }
        ContentBlock::Reasoning { text } => {
            let deltas = words(text).map(|text| StreamChunk::ReasoningDelta { index, text });
            std::iter::once(start(BlockType::Reasoning))
                .chain(deltas)
                .collect()
        }
        ContentBlock::ToolCall {
            id,
            name,
            arguments,
        } => std::iter::once(start(BlockType::ToolCall))
            .chain(call_deltas(index, id, name, arguments))
            .collect(),
        _ => Vec::new(),
    };
    chunks.push(StreamChunk::BlockEnd { index, block });
    chunks
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split_inclusive(char::is_whitespace).map(str::to_owned)
}

fn call_deltas(index: u64, id: &CallId, name: &str, arguments: &str) -> Vec<StreamChunk> {
    let characters: Vec<char> = arguments.chars().collect();
    let first = std::iter::once((Some(name.to_owned()), String::new()));
    let rest = characters
        .chunks(PIECE)
        .map(|piece| (None, piece.iter().collect()));
    first
        .chain(rest)
        .map(|(name, arguments_delta)| StreamChunk::ToolCallDelta {
            index,
            id: id.clone(),
            name,
            arguments_delta,
        })
        .collect()
}
