//! Sessions over the Agent Client Protocol (ACP), version 1.
//!
//! Two halves. The mapping is pure and usable alone: a [`Projector`] turns the events of a log into
//! the updates that a client is to be sent, live and in replay; [`to_acp`] and [`from_acp`] hold its
//! parts. The agent, [`serve`], speaks the protocol over any pair of byte streams on behalf of a
//! [`Host`], which owns the sessions and runs the turns.
//!
//! Of todos the crate knows only the payload of the event; of models and stores it knows nothing.
//! It prints nothing: the writer carries the protocol, and logs go to `tracing`.
//!
//! # The mapping alone
//!
//! ```
//! use acp_adapter::{Mode, Projector, schema::{ClientCapabilities, SessionUpdate}};
//! use session_core::event::{Todo, TodoStatus, TodoWrite, TurnStart};
//! use session_core::{NewEvent, Seq, UnixMillis};
//! use tool_runtime::ToolRegistry;
//!
//! let list = TodoWrite {
//!     todos: vec![Todo { content: "write the example".into(), status: TodoStatus::InProgress }],
//! };
//! let log = [NewEvent::new(&TurnStart { turn: 1 }), NewEvent::new(&list)];
//!
//! let client = ClientCapabilities::new();
//! let mut projector = Projector::new(Mode::Live, &client, ToolRegistry::default());
//! let mut updates = Vec::new();
//! for (seq, event) in (0_u32..).zip(log) {
//!     updates.extend(projector.push(&event.at(Seq::from(seq), UnixMillis::EPOCH)));
//! }
//! let [SessionUpdate::Plan(plan)] = updates.as_slice() else { panic!("one plan") };
//! assert_eq!(plan.entries[0].content, "write the example");
//! ```

mod agent;
mod attach;
mod connection;
mod fault;
pub mod from_acp;
mod holders;
mod host;
mod listing;
mod outbox;
mod projector;
mod prompt;
pub mod to_acp;
mod transport;

pub use agent::{AcpAgent, ServeError, serve};
/// The messages of the protocol.
pub use agent_client_protocol::v1::schema;
pub use from_acp::Refusal;
pub use host::{AgentInfo, Host, PromptCancel, PromptError};
pub use projector::{Mode, Projector};
