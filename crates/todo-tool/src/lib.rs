//! `todo_write`: the whole task list of an agent, kept on its session log.
//!
//! The model sends the entire list on each call; it replaces the previous one. A call that is
//! accepted appends one `todo/write` to the session that called; a call that is not appends
//! nothing and answers with a text that the model can act on.
//!
//! - [`decide`] is the rule itself: configuration and arguments in, event and result out. It needs
//!   no registry, no session and no runtime.
//! - [`TodoWriteTool`] is that rule as a [`Tool`](tool_runtime::Tool).
//! - [`Todos`] is the standing plan as a projection [`Unit`](projection::Unit).
//! - [`diff()`] compares two lists.
//!
//! What the log demands of a list, whatever policy it was written under, is
//! [`TodoWrite::check_rule`]; it lives with the event in `session-core`.
//!
//! # The rule alone
//!
//! ```
//! use serde_json::json;
//! use todo_tool::{TodoConfig, TodoError, decide};
//!
//! let config = TodoConfig::new(false);
//! let list = json!({ "todos": [{ "content": " Fix the bug ", "status": "in_progress" }] });
//! let decision = decide(&config, &list)?;
//! assert_eq!(decision.event.todos[0].content, "Fix the bug");
//! assert_eq!(
//!     decision.acknowledgement,
//!     "Updated todo list: 0 pending, 1 in progress, 0 completed."
//! );
//! # Ok::<(), TodoError>(())
//! ```
//!
//! # In a harness
//!
//! ```
//! use std::sync::Arc;
//! use session_core::{MemoryStore, NewEvent, NewSession, Sessions, event::TurnStart};
//! use todo_tool::{TodoConfig, TodoWriteTool};
//! use tool_runtime::{ToolContext, ToolRegistry};
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let tools = ToolRegistry::default();
//! let _guard = tools.register(Arc::new(TodoWriteTool::new(TodoConfig::new(true))))?;
//!
//! let session = Sessions::builder(MemoryStore::shared()).build().create(NewSession::default()).await?;
//! session.append(vec![NewEvent::new(&TurnStart { turn: 1 })]).await?;
//! let context = ToolContext::owned(session.clone(), "call-1", Default::default());
//! let outcome = tools.run("todo_write", r#"{"todos":[]}"#, &context).await;
//! assert_eq!(outcome.text(), "Updated todo list: 0 pending, 0 in progress, 0 completed.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

mod config;
mod diff;
mod schema;
mod shape;
mod tool;
mod unit;
mod write;

pub use config::{TodoConfig, TodoLimits};
pub use diff::{TodoChange, diff};
pub use schema::{NAME, definition};
pub use session_core::event::{Todo, TodoRule, TodoStatus, TodoWrite};
pub use tool::TodoWriteTool;
pub use unit::Todos;
pub use write::{Decision, TodoCounts, TodoError, decide};
