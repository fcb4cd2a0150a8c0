use std::sync::Arc;

use session_core::event::{TodoWrite, TurnStart};
use session_core::{Event, EventStore, NewEvent, NewSession, Seq, Session, Sessions};
use todo_tool::{TodoConfig, TodoWriteTool};
use tokio_util::sync::CancellationToken;
use tool_runtime::{ToolContext, ToolGuard, ToolOutcome, ToolRegistry};

/// A session in its first turn, and the tool that it calls.
pub(crate) struct Desk {
    pub(crate) sessions: Sessions,
    pub(crate) session: Session,
    pub(crate) tools: ToolRegistry,
    _guard: ToolGuard,
}

impl Desk {
    pub(crate) async fn new(store: Arc<dyn EventStore>, allow_parallel: bool) -> Self {
        let sessions = Sessions::builder(store).build();
        let session = sessions.create(NewSession::default()).await.unwrap();
        let start = NewEvent::new(&TurnStart { turn: 1 });
        session.append(vec![start]).await.unwrap();
        let tools = ToolRegistry::default();
        let tool = TodoWriteTool::new(TodoConfig::new(allow_parallel));
        let guard = tools.register(Arc::new(tool)).unwrap();
        Self {
            sessions,
            session,
            tools,
            _guard: guard,
        }
    }

    /// Calls `todo_write` with the model's raw text.
    pub(crate) async fn call(&self, arguments: &str) -> ToolOutcome {
        let session = self.session.clone();
        let context = ToolContext::owned(session, "call-1", CancellationToken::new());
        self.tools.run("todo_write", arguments, &context).await
    }

    pub(crate) async fn writes(&self) -> Vec<TodoWrite> {
        let events = self.session.page(Seq::ZERO).await.unwrap();
        events.iter().filter_map(Event::decode).collect()
    }
}
