//! Our words in the protocol's: pure functions, one per thing that is shown.

use agent_client_protocol::v1::schema::{
    self, Content, ContentChunk, Notice, NoticeSeverity, Plan, PlanEntry, PlanEntryPriority,
    PlanEntryStatus, SessionInfo, SessionInfoUpdate, SessionUpdate, StopReason, ToolCallContent,
    ToolCallId, ToolCallLocation, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
};
use session_core::event::{AbortReason, ContentBlock, Todo, TodoStatus, TurnEndReason, TurnError};
use session_core::{CallId, CatalogueEntry, Seq, UnixMillis};
use tool_runtime::{CallPresentation, ToolKind};

/// A task list as the plan that a client shows: every item, in order, with its own status and the
/// priority `medium`. An empty list is an empty plan.
#[must_use]
pub fn plan(todos: &[Todo]) -> SessionUpdate {
    let entries = todos.iter().map(|todo| {
        let status = match todo.status {
            TodoStatus::Pending => PlanEntryStatus::Pending,
            TodoStatus::InProgress => PlanEntryStatus::InProgress,
            TodoStatus::Completed => PlanEntryStatus::Completed,
        };
        PlanEntry::new(todo.content.clone(), PlanEntryPriority::Medium, status)
    });
    SessionUpdate::Plan(Plan::new(entries.collect()))
}

/// The name that a call has on the wire. Providers reuse their ids from completion to completion;
/// turn and step make it unique within the session, and the same whenever it is computed.
#[must_use]
pub fn tool_call_id(turn: u64, step: u64, call: &CallId) -> ToolCallId {
    ToolCallId::new(format!("{turn}.{step}.{call}"))
}

/// A call that has begun.
#[must_use]
pub fn tool_call(id: ToolCallId, name: &str, presentation: CallPresentation) -> schema::ToolCall {
    let CallPresentation {
        title,
        kind,
        raw_input,
        locations,
    } = presentation;
    schema::ToolCall::new(id, title)
        .name(name.to_owned())
        .kind(tool_kind(kind))
        .status(ToolCallStatus::InProgress)
        .locations(locations.into_iter().map(ToolCallLocation::new).collect())
        .raw_input(raw_input)
}

/// A call that has settled, with what the model reads of it.
#[must_use]
pub fn tool_result(id: ToolCallId, content: &[ContentBlock], is_error: bool) -> SessionUpdate {
    let content = content.iter().filter_map(|block| match block {
        ContentBlock::Text { text } => {
            let text = schema::ContentBlock::from(text.clone());
            Some(ToolCallContent::Content(Content::new(text)))
        }
        // Kinds of other writers, which this version does not show.
        _ => None,
    });
    let status = if is_error {
        ToolCallStatus::Failed
    } else {
        ToolCallStatus::Completed
    };
    let fields = ToolCallUpdateFields::new()
        .status(status)
        .content(content.collect::<Vec<_>>());
    SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields))
}

/// A call whose step ended without a result of it.
#[must_use]
pub fn abandoned_call(id: ToolCallId) -> SessionUpdate {
    let fields = ToolCallUpdateFields::new().status(ToolCallStatus::Failed);
    SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields))
}

/// What a message is made of, as far as a person is shown it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Voice {
    /// The person speaks.
    User,
    /// The model speaks.
    Agent,
    /// The model thinks aloud.
    Thought,
}

/// A piece of a message. The text goes out as it is.
#[must_use]
pub fn chunk(voice: Voice, message: &str, text: String) -> SessionUpdate {
    let chunk = ContentChunk::new(text.into()).message_id(message);
    match voice {
        Voice::User => SessionUpdate::UserMessageChunk(chunk),
        Voice::Agent => SessionUpdate::AgentMessageChunk(chunk),
        Voice::Thought => SessionUpdate::AgentThoughtChunk(chunk),
    }
}

/// The title of a session, as given just now; without an instant where other events came later.
#[must_use]
pub fn title(title: &str, at: Option<UnixMillis>) -> SessionUpdate {
    let mut info = SessionInfoUpdate::new().title(title.to_owned());
    if let Some(at) = at {
        info = info.updated_at(at.to_string());
    }
    SessionUpdate::SessionInfoUpdate(info)
}

/// A remark that an event cannot be shown; only for clients that take notices.
#[must_use]
pub fn unreadable(seq: Seq, kind: &str) -> SessionUpdate {
    let notice = Notice::new(
        NoticeSeverity::Warning,
        "Part of the session cannot be shown",
    )
    .description(format!("event {seq} ({kind}) cannot be read"));
    SessionUpdate::Notice(notice)
}

/// A session of a listing; `None` for one without a folder, which the protocol cannot name.
#[must_use]
pub fn session_info(entry: &CatalogueEntry) -> Option<SessionInfo> {
    let cwd = entry.header.cwd.as_deref()?;
    let info = SessionInfo::new(entry.header.id.as_str().to_owned(), cwd)
        .title(entry.title.clone())
        .updated_at(entry.updated_at.to_string());
    Some(info)
}

/// Why a prompt stopped.
///
/// # Errors
///
/// Returns the failure of a turn that failed; the protocol has no stop reason for it.
pub fn stop_reason(reason: TurnEndReason) -> Result<StopReason, TurnError> {
    match reason {
        TurnEndReason::Completed => Ok(StopReason::EndTurn),
        TurnEndReason::MaxTokens => Ok(StopReason::MaxTokens),
        TurnEndReason::Blocked => Ok(StopReason::Refusal),
        TurnEndReason::Aborted {
            reason: AbortReason::Budget { .. },
        } => Ok(StopReason::MaxTurnRequests),
        TurnEndReason::Aborted { .. } | TurnEndReason::Interrupted => Ok(StopReason::Cancelled),
        TurnEndReason::Error { error } => Err(error),
        // Reasons of other writers: the turn is over, and more is not known.
        _ => Ok(StopReason::EndTurn),
    }
}

fn tool_kind(kind: ToolKind) -> schema::ToolKind {
    match kind {
        ToolKind::Read => schema::ToolKind::Read,
        ToolKind::Edit => schema::ToolKind::Edit,
        ToolKind::Delete => schema::ToolKind::Delete,
        ToolKind::Move => schema::ToolKind::Move,
        ToolKind::Search => schema::ToolKind::Search,
        ToolKind::Execute => schema::ToolKind::Execute,
        ToolKind::Think => schema::ToolKind::Think,
        ToolKind::Fetch => schema::ToolKind::Fetch,
        // What has no icon of its own.
        _ => schema::ToolKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn wire(update: &SessionUpdate) -> Value {
        serde_json::to_value(update).unwrap()
    }

    fn todo(content: &str, status: TodoStatus) -> Todo {
        let content = content.to_owned();
        Todo { content, status }
    }

    #[test]
    fn a_plan_has_every_item_with_its_status_and_a_constant_priority() {
        let todos = [
            todo("a", TodoStatus::Completed),
            todo("b", TodoStatus::InProgress),
            todo("c", TodoStatus::Pending),
        ];
        let text = serde_json::to_string(&plan(&todos)).unwrap();
        insta::assert_snapshot!(text, @r#"{"sessionUpdate":"plan","entries":[{"content":"a","priority":"medium","status":"completed"},{"content":"b","priority":"medium","status":"in_progress"},{"content":"c","priority":"medium","status":"pending"}]}"#);
    }

    #[test]
    fn an_empty_list_is_an_empty_plan() {
        assert_eq!(
            wire(&plan(&[])),
            json!({ "sessionUpdate": "plan", "entries": [] })
        );
    }

    #[test]
    fn texts_go_out_as_they_are() {
        let text = "a\u{0}b \u{202e}\u{1b}[31m\r\n";
        let update = chunk(Voice::Agent, "m", text.to_owned());
        assert_eq!(wire(&update)["content"]["text"], json!(text));
        let plan = plan(&[todo(text.trim(), TodoStatus::Pending)]);
        assert_eq!(wire(&plan)["entries"][0]["content"], json!(text.trim()));
    }

    #[test]
    fn each_end_of_a_turn_has_its_stop_reason() {
        let aborted = |reason| TurnEndReason::Aborted { reason };
        for (reason, stop) in [
            (TurnEndReason::Completed, StopReason::EndTurn),
            (TurnEndReason::MaxTokens, StopReason::MaxTokens),
            (TurnEndReason::Blocked, StopReason::Refusal),
            (TurnEndReason::Interrupted, StopReason::Cancelled),
            (aborted(AbortReason::User), StopReason::Cancelled),
            (aborted(AbortReason::Disposed), StopReason::Cancelled),
            (
                aborted(AbortReason::Budget { steps: 3 }),
                StopReason::MaxTurnRequests,
            ),
            (TurnEndReason::Other(json!("x")), StopReason::EndTurn),
        ] {
            assert_eq!(stop_reason(reason), Ok(stop));
        }
        let error = TurnError::unknown("no model");
        let failed = TurnEndReason::Error {
            error: error.clone(),
        };
        assert_eq!(stop_reason(failed), Err(error));
    }
}
