//! Turns and steps of an agent: one prompt, the model calls it takes, and the tools they ask for.
//!
//! An [`Agent`] drives a [`Model`] and the tools of a registry for one prompt at a time, and keeps
//! all of it in the session's log: the input before anything is done with it, what is sent to the
//! model before it is sent, a call before its tool runs. Whatever happens, the step and the turn are
//! closed. What the model was shown can be rebuilt from the log alone ([`ModelRequest::rebuild`]).
//!
//! Two models come with it: [`OfflineModel`], which needs no key, and [`ScriptedModel`], for tests.
//!
//! The crate knows no protocol and no tool; the offline model knows `todo_write` by its name and the
//! shape of its arguments.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use agent_loop::{Agent, AgentConfig, OfflineModel};
//! use session_core::event::{ContentBlock, TurnEndReason};
//! use session_core::{MemoryStore, NewSession, RandomIds, Sessions};
//! use tokio_util::sync::CancellationToken;
//! use tool_runtime::ToolRegistry;
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let sessions = Sessions::builder(MemoryStore::shared()).build();
//! let session = sessions.create(NewSession::default()).await?;
//!
//! let model = Arc::new(OfflineModel::new(Duration::ZERO));
//! let tools = ToolRegistry::default();
//! let agent = Agent::new(model, tools, AgentConfig::default(), Arc::new(RandomIds));
//!
//! let prompt = vec![ContentBlock::text("- read\n- write")];
//! let reason = agent.prompt(&session, prompt, CancellationToken::new()).await?;
//! assert_eq!(reason, TurnEndReason::Completed);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

mod admission;
mod agent;
mod assemble;
mod cancel;
mod dispatch;
mod model;
mod request;
mod schedule;
mod step;
pub mod title;
mod turn;

pub use admission::Admission;
pub use agent::{Agent, AgentConfig, TurnFailure};
pub use cancel::Cancel;
pub use model::offline::OfflineModel;
pub use model::scripted::{ScriptError, ScriptedModel};
pub use model::{Model, ModelError, ModelRequest, Route};
