//! Closing a turn that a crash left open.

use crate::event::{
    ContentBlock, ErrorInfo, Message, MessageSource, Role, StepEnd, ToolResult, TurnEnd,
    TurnEndReason,
};
use crate::{CallId, Event, LogState, MessageId, NewEvent, Seq, SurfaceMeta};

/// Code of the synthetic result of a call that never started.
pub(crate) const NOT_STARTED: &str = "TOOL_NOT_STARTED";
/// Code of the synthetic result of a call that started and left no result.
pub(crate) const OUTCOME_UNKNOWN: &str = "TOOL_OUTCOME_UNKNOWN";

/// The events that close the open turn of a log, none when no turn is open.
///
/// In this order: one error result for each call of the open step that has none, in the order in
/// which the model asked; the end of the step; the end of the turn, as interrupted. All carry the
/// time of the last event, so that the same log is always closed by the same events
/// (`session-semantics` section 4.11).
#[must_use]
pub fn repair(state: &LogState) -> Vec<Event> {
    let trace = state.trace();
    let Some(turn) = trace.open_turn() else {
        return Vec::new();
    };
    let mut closers = Vec::new();
    let mut seq = state.next_seq();
    let mut close = |event: NewEvent| {
        closers.push(event.at(seq, state.last_time()));
        seq = seq.next();
        seq
    };
    let mut next = state.next_seq();
    if let (Some(step), Some(open)) = (trace.open_step(), trace.step()) {
        let mut seen = std::collections::HashSet::new();
        let unanswered = open
            .asked
            .iter()
            .filter(|call| !open.answered.contains(*call));
        for call in unanswered.filter(|call| seen.insert(*call)) {
            let started = open.started.get(call).copied();
            next = close(unsettled(turn, step, call, started, next));
        }
        close(NewEvent::new(&StepEnd { turn, step }));
    }
    close(NewEvent::new(&TurnEnd {
        turn,
        reason: TurnEndReason::Interrupted,
    }));
    closers
}

fn unsettled(turn: u64, step: u64, call: &CallId, started: Option<Seq>, seq: Seq) -> NewEvent {
    let (code, text, surface) = match started {
        Some(at) => (
            OUTCOME_UNKNOWN,
            "Error: the session was interrupted while this tool call was running, so its outcome \
             is unknown. It may have taken effect: check before calling it again.",
            SurfaceMeta::append_from(vec![at]),
        ),
        None => (
            NOT_STARTED,
            "Error: the session was interrupted before this tool call started. It had no effect \
             and can be called again.",
            SurfaceMeta::append(),
        ),
    };
    let block = ContentBlock::ToolResult {
        tool_call_id: call.clone(),
        content: vec![ContentBlock::text(text)],
        is_error: true,
    };
    let message = Message {
        id: MessageId::new(format!("interrupted-{seq}-{call}")),
        role: Role::User,
        content: vec![block],
        source: MessageSource::Tool {
            call_id: call.clone(),
        },
    };
    let error = ErrorInfo {
        name: "InterruptedError".into(),
        code: code.into(),
    };
    NewEvent::on_surface(
        &ToolResult {
            turn,
            step,
            message,
            error: Some(error),
            meta: None,
        },
        surface,
    )
}
