//! `todo_write` as a tool.

use async_trait::async_trait;
use serde_json::Value;
use session_core::{AppendFailure, NewEvent};
use tool_runtime::{
    CallPresentation, Tool, ToolContext, ToolDefinition, ToolFailure, ToolKind, ToolSuccess,
};

use crate::{Decision, TodoConfig, TodoError, decide, definition, shape};

/// Replaces the task list of the session that calls.
///
/// Never parallel safe: of two writes in one message the later one wins, so they run in the
/// model's order.
#[derive(Debug, Clone)]
pub struct TodoWriteTool {
    config: TodoConfig,
    definition: ToolDefinition,
}

impl TodoWriteTool {
    /// The tool under a configuration.
    #[must_use]
    pub fn new(config: TodoConfig) -> Self {
        let definition = definition(&config);
        Self { config, definition }
    }
}

#[async_trait]
impl Tool for TodoWriteTool {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn present(&self, arguments: &Value) -> Option<CallPresentation> {
        shape::read(&self.config.limits, arguments).ok()?;
        Some(CallPresentation {
            title: "Update todo list".to_owned(),
            kind: ToolKind::Other,
            raw_input: arguments.get("todos").cloned(),
            locations: Vec::new(),
        })
    }

    /// Appends the list to the session of the context.
    ///
    /// # Errors
    ///
    /// Returns what the model is to read; nothing was appended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the list either replaced or as it was.
    async fn run(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> Result<ToolSuccess, ToolFailure> {
        let session = context.session.as_ref().ok_or_else(|| {
            ToolFailure::coded("NO_SESSION", "todo_write requires an owning agent session")
        })?;
        let decision = decide(&self.config, &arguments).map_err(refused)?;
        session
            .append(vec![NewEvent::new(&decision.event)])
            .await
            .map_err(|failure| not_saved(&failure))?;
        let value = decision.value();
        let Decision {
            acknowledgement, ..
        } = decision;
        Ok(ToolSuccess::text(value, acknowledgement))
    }
}

fn refused(error: TodoError) -> ToolFailure {
    let code = match error {
        TodoError::Arguments(_) => "INVALID_ARGS",
        TodoError::Empty { .. } | TodoError::Duplicate { .. } | TodoError::InProgress { .. } => {
            "INVALID_TODOS"
        }
    };
    ToolFailure::coded(code, error.to_string())
}

/// What the rules and checks of a log say is for the model. What a backend says is for the
/// operator, who finds it in the program's own log.
fn not_saved(failure: &AppendFailure) -> ToolFailure {
    let reason = match failure {
        AppendFailure::Store(error) => {
            tracing::warn!(error = chain(error), "a todo list was not appended");
            error.to_string()
        }
        _ => chain(failure),
    };
    ToolFailure::coded("NOT_SAVED", format!("todo list not saved: {reason}"))
}

fn chain(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    sources.fold(error.to_string(), |text, source| {
        format!("{text}: {source}")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use session_core::event::{
        SessionTitle, TodoStatus, TodoWrite, TurnEnd, TurnEndReason, TurnStart,
    };
    use session_core::{Check, Event, LogState, MemoryStore, NewSession, Seq, Session, Sessions};
    use tokio_util::sync::CancellationToken;
    use tool_runtime::{ToolOutcome, ToolRegistry};

    use super::*;

    const NO_SESSION: &str = "Error: todo_write requires an owning agent session";

    async fn in_a_turn(sessions: &Sessions) -> Session {
        let session = sessions.create(NewSession::default()).await.unwrap();
        let start = NewEvent::new(&TurnStart { turn: 1 });
        session.append(vec![start]).await.unwrap();
        session
    }

    fn sessions() -> Sessions {
        Sessions::builder(MemoryStore::shared()).build()
    }

    fn context(session: &Session) -> ToolContext {
        ToolContext::owned(session.clone(), "call-1", CancellationToken::new())
    }

    async fn call(arguments: Value, context: &ToolContext) -> ToolOutcome {
        let tools = ToolRegistry::default();
        let tool = TodoWriteTool::new(TodoConfig::new(false));
        let _guard = tools.register(std::sync::Arc::new(tool)).unwrap();
        tools
            .run("todo_write", &arguments.to_string(), context)
            .await
    }

    fn one(content: &str) -> Value {
        json!({ "todos": [{ "content": content, "status": "in_progress" }] })
    }

    async fn writes(session: &Session) -> Vec<TodoWrite> {
        let events = session.page(Seq::ZERO).await.unwrap();
        events.iter().filter_map(Event::decode).collect()
    }

    #[tokio::test]
    async fn an_accepted_call_appends_one_event_and_acknowledges_it() {
        let session = in_a_turn(&sessions()).await;
        let todos = json!({ "todos": [
            { "content": " a ", "status": "completed" },
            { "content": "b", "status": "in_progress" },
            { "content": "c", "status": "pending" },
            { "content": "d", "status": "pending" },
        ]});
        let outcome = call(todos, &context(&session)).await;
        assert!(!outcome.is_error);
        assert_eq!(
            outcome.text(),
            "Updated todo list: 2 pending, 1 in progress, 1 completed."
        );
        assert_eq!(
            outcome.value,
            Some(json!({
                "todos": [
                    { "content": "a", "status": "completed" },
                    { "content": "b", "status": "in_progress" },
                    { "content": "c", "status": "pending" },
                    { "content": "d", "status": "pending" },
                ],
                "counts": { "pending": 2, "inProgress": 1, "completed": 1 },
            }))
        );
        let written = writes(&session).await;
        assert_eq!(written.len(), 1);
        assert_eq!(written[0].todos[0].content, "a");
        assert_eq!(written[0].todos[1].status, TodoStatus::InProgress);
        assert_eq!(session.head(), Some(Seq::from(1)));
        assert!(session.messages().is_empty());
    }

    #[tokio::test]
    async fn each_write_replaces_the_list_and_an_empty_one_clears_it() {
        let session = in_a_turn(&sessions()).await;
        let context = context(&session);
        for arguments in [one("a"), one("b"), json!({ "todos": [] })] {
            assert!(!call(arguments, &context).await.is_error);
        }
        let written = writes(&session).await;
        let lengths: Vec<_> = written.iter().map(|write| write.todos.len()).collect();
        assert_eq!(lengths, [1, 1, 0]);
        assert_eq!(written[1].todos[0].content, "b");
    }

    #[tokio::test]
    async fn a_refused_call_appends_nothing() {
        let session = in_a_turn(&sessions()).await;
        let item = |content: &str| json!({ "content": content, "status": "in_progress" });
        for (arguments, text, code) in [
            (
                one(" \t"),
                "Error: invalid todo: `content` must be a non-empty string",
                "INVALID_TODOS",
            ),
            (
                json!({ "todos": [item("a"), item(" a ")] }),
                "Error: invalid todos: duplicate content \"a\"",
                "INVALID_TODOS",
            ),
            (
                json!({ "todos": [item("a"), item("b"), item("c")] }),
                "Error: invalid todos: at most one task may be in_progress (got 3)",
                "INVALID_TODOS",
            ),
            (
                json!({}),
                "Error: invalid arguments: arguments.todos: missing, expected an array",
                "INVALID_ARGS",
            ),
        ] {
            let outcome = call(arguments, &context(&session)).await;
            assert!(outcome.is_error);
            assert_eq!(outcome.text(), text);
            assert_eq!(outcome.error.unwrap().code, code);
        }
        assert!(writes(&session).await.is_empty());
    }

    #[tokio::test]
    async fn a_caller_without_a_session_is_refused() {
        let outcome = call(one("a"), &ToolContext::ownerless("call-1")).await;
        assert!(outcome.is_error);
        assert_eq!(outcome.text(), NO_SESSION);
    }

    #[tokio::test]
    async fn a_list_belongs_to_the_session_that_called() {
        let sessions = sessions();
        let (mine, other) = (in_a_turn(&sessions).await, in_a_turn(&sessions).await);
        call(one("a"), &context(&mine)).await;
        assert_eq!(writes(&mine).await.len(), 1);
        assert!(writes(&other).await.is_empty());
    }

    #[tokio::test]
    async fn a_log_that_takes_no_list_is_answered_with_its_reason() {
        let session = in_a_turn(&sessions()).await;
        let reason = TurnEndReason::Completed;
        let end = NewEvent::new(&TurnEnd { turn: 1, reason });
        session.append(vec![end]).await.unwrap();
        let outcome = call(one("a"), &context(&session)).await;
        assert!(outcome.is_error);
        assert_eq!(
            outcome.text(),
            format!(
                "Error: todo list not saved: session {} refused the batch: event 2 (todo/write) \
                 does not fit the trace: belongs inside a turn, but none is open",
                session.id()
            )
        );
        assert!(writes(&session).await.is_empty());
    }

    #[tokio::test]
    async fn a_closed_session_takes_no_list() {
        let sessions = sessions();
        let session = in_a_turn(&sessions).await;
        sessions.close(session.id()).await;
        let outcome = call(one("a"), &context(&session)).await;
        assert_eq!(
            outcome.text(),
            format!(
                "Error: todo list not saved: session {} is closed",
                session.id()
            )
        );
        assert_eq!(outcome.error.unwrap().code, "NOT_SAVED");
    }

    #[tokio::test]
    async fn a_store_that_takes_no_list_leaves_it_as_it_was() {
        let store = MemoryStore::shared();
        let session = in_a_turn(&Sessions::builder(store.clone()).build()).await;
        let other = Sessions::builder(store).build();
        let same = other.open(session.id()).await.unwrap();
        let title = r#"{"title":"t","source":{"kind":"user"}}"#;
        let title: SessionTitle = serde_json::from_str(title).unwrap();
        same.append(vec![NewEvent::new(&title)]).await.unwrap();

        let outcome = call(one("a"), &context(&session)).await;
        let told = format!(
            "Error: todo list not saved: session {} moved on: ",
            session.id()
        );
        assert!(outcome.text().starts_with(&told), "{}", outcome.text());
        assert!(writes(&session).await.is_empty());
        assert!(writes(&same).await.is_empty());
    }

    #[derive(Debug)]
    struct NotOnMondays;

    impl Check for NotOnMondays {
        fn name(&self) -> &str {
            "not-on-mondays"
        }

        fn check(&self, _: &LogState, event: &Event) -> Result<(), String> {
            if event.is::<TodoWrite>() {
                return Err("plans are made on Tuesdays".to_owned());
            }
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_veto_of_the_harness_reaches_the_model() {
        let sessions = Sessions::builder(MemoryStore::shared())
            .check(std::sync::Arc::new(NotOnMondays))
            .build();
        let session = in_a_turn(&sessions).await;
        let outcome = call(one("a"), &context(&session)).await;
        assert!(outcome.is_error);
        assert!(outcome.text().ends_with("plans are made on Tuesdays"));
        assert!(writes(&session).await.is_empty());
    }

    #[test]
    fn a_call_presents_its_list_and_garbage_presents_nothing() {
        let tool = TodoWriteTool::new(TodoConfig::new(true));
        let arguments = json!({ "todos": [{ "content": "", "status": "pending" }] });
        let shown = tool.present(&arguments).unwrap();
        assert_eq!(shown.title, "Update todo list");
        assert_eq!(shown.kind, ToolKind::Other);
        assert_eq!(shown.raw_input, Some(arguments["todos"].clone()));
        assert!(shown.locations.is_empty());
        for garbage in [
            json!(null),
            json!("todos"),
            json!({}),
            json!({ "todos": "[]" }),
            json!({ "todos": [null] }),
            json!({ "todos": [{ "content": "a" }] }),
        ] {
            assert_eq!(tool.present(&garbage), None, "{garbage}");
        }
    }

    #[test]
    fn writes_of_one_message_run_one_after_another() {
        let tool = TodoWriteTool::new(TodoConfig::new(true));
        assert!(!tool.is_parallel_safe(&one("a")));
    }
}
