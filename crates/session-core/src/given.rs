//! What the tests of the rules begin with.

use crate::event::{
    AssistantChunk, AssistantMessage, ContentBlock, EndSeed, ErrorInfo, Message, MessageSource,
    RequestContext, RequestHeader, RequestHeaderBody, RequestReason, Role, SessionTitle, StepEnd,
    StepStart, StreamChunk, TitleSource, TodoWrite, ToolCall, ToolResult, TurnEnd, TurnEndReason,
    TurnStart, UserMessage,
};
use crate::testing::placed;
use crate::{Event, LogState, NewEvent, Seq, SurfaceMeta, Violation, Vocabulary};

pub(crate) fn turn_start(turn: u64) -> NewEvent {
    NewEvent::new(&TurnStart { turn })
}

pub(crate) fn turn_end(turn: u64) -> NewEvent {
    let reason = TurnEndReason::Completed;
    NewEvent::new(&TurnEnd { turn, reason })
}

pub(crate) fn step_start(turn: u64, step: u64) -> NewEvent {
    NewEvent::new(&StepStart { turn, step })
}

pub(crate) fn step_end(turn: u64, step: u64) -> NewEvent {
    NewEvent::new(&StepEnd { turn, step })
}

pub(crate) fn end_seed() -> NewEvent {
    NewEvent::new(&EndSeed {})
}

pub(crate) fn todos() -> NewEvent {
    NewEvent::new(&TodoWrite::default())
}

pub(crate) fn request_header() -> NewEvent {
    let config = serde_json::json!({"provider": "p", "model": "m"});
    NewEvent::new(&RequestHeader {
        header: RequestHeaderBody {
            config: config.as_object().cloned().unwrap(),
            ..RequestHeaderBody::default()
        },
        reason: RequestReason::Initial,
    })
}

pub(crate) fn request_context() -> NewEvent {
    NewEvent::new(&RequestContext {
        provider: "p".into(),
        model: "m".into(),
        context_window: None,
    })
}

pub(crate) fn title(title: &str) -> NewEvent {
    NewEvent::new(&SessionTitle {
        title: title.into(),
        message_seqs: None,
        source: TitleSource::Fallback,
    })
}

pub(crate) fn chunk(turn: u64, step: u64) -> NewEvent {
    let chunk = StreamChunk::TextDelta {
        index: 0,
        text: "a".into(),
    };
    NewEvent::new(&AssistantChunk { turn, step, chunk })
}

pub(crate) fn user(text: &str, meta: SurfaceMeta) -> NewEvent {
    let message = Message {
        id: "user".into(),
        role: Role::User,
        content: vec![ContentBlock::text(text)],
        source: MessageSource::User,
    };
    NewEvent::on_surface(&UserMessage(message), meta)
}

/// What the model says in a step: text unless it is empty, and calls.
pub(crate) fn assistant(turn: u64, step: u64, text: &str, calls: &[&str]) -> NewEvent {
    assistant_with(turn, step, text, calls, SurfaceMeta::append())
}

pub(crate) fn assistant_with(
    turn: u64,
    step: u64,
    text: &str,
    calls: &[&str],
    meta: SurfaceMeta,
) -> NewEvent {
    let text = Some(text).filter(|text| !text.is_empty());
    let calls = calls.iter().map(|call| ContentBlock::ToolCall {
        id: (*call).into(),
        name: "tool".into(),
        arguments: "{}".into(),
    });
    let message = Message {
        id: "assistant".into(),
        role: Role::Assistant,
        content: text
            .map(ContentBlock::text)
            .into_iter()
            .chain(calls)
            .collect(),
        source: MessageSource::Model {
            provider: "p".into(),
            model: "m".into(),
        },
    };
    let payload = AssistantMessage {
        turn,
        step,
        message,
        usage: None,
        interrupted: false,
    };
    NewEvent::on_surface(&payload, meta)
}

pub(crate) fn call(turn: u64, step: u64, call: &str) -> NewEvent {
    NewEvent::new(&ToolCall {
        turn,
        step,
        call_id: call.into(),
        name: "tool".into(),
        arguments: "{}".into(),
    })
}

pub(crate) fn result(turn: u64, step: u64, call: &str) -> ToolResult {
    let block = ContentBlock::ToolResult {
        tool_call_id: call.into(),
        content: vec![ContentBlock::text("done")],
        is_error: false,
    };
    ToolResult {
        turn,
        step,
        message: Message {
            id: "result".into(),
            role: Role::User,
            content: vec![block],
            source: MessageSource::Tool {
                call_id: call.into(),
            },
        },
        error: None,
        meta: None,
    }
}

/// The result of a call as a failure with a code.
pub(crate) fn failed(turn: u64, step: u64, call: &str, code: &str) -> ToolResult {
    let mut failed = result(turn, step, call);
    if let [ContentBlock::ToolResult { is_error, .. }] = &mut failed.message.content[..] {
        *is_error = true;
    }
    failed.error = Some(ErrorInfo {
        name: "Error".into(),
        code: code.into(),
    });
    failed
}

pub(crate) fn appended(result: &ToolResult) -> NewEvent {
    NewEvent::on_surface(result, SurfaceMeta::append())
}

pub(crate) fn seqs<const N: usize>(seqs: [u32; N]) -> Vec<Seq> {
    seqs.map(Seq::from).into()
}

pub(crate) fn replace<const N: usize>(start: u32, end: u32, sources: [u32; N]) -> SurfaceMeta {
    SurfaceMeta::replace(start.into(), end.into(), seqs(sources))
}

/// The events in their places, a millisecond apart.
pub(crate) fn log(events: impl IntoIterator<Item = NewEvent>) -> Vec<Event> {
    placed(Seq::ZERO, events)
}

pub(crate) fn folded(events: impl IntoIterator<Item = NewEvent>) -> Result<LogState, Violation> {
    LogState::fold(&Vocabulary::core(), &log(events))
}
