//! Tools that an agent can call.
//!
//! A [`Tool`] describes itself with a JSON schema and runs with checked arguments. The
//! [`ToolRegistry`] keeps the tools of a harness, checks arguments with paths in the messages, and
//! turns every failure, panics included, into a result that the model can read.
//!
//! The crate knows sessions only as the owner of a call; it appends nothing by itself.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use async_trait::async_trait;
//! use serde_json::{Value, json};
//! use tool_runtime::{Tool, ToolContext, ToolDefinition, ToolFailure, ToolRegistry, ToolSuccess};
//!
//! struct Shout;
//!
//! #[async_trait]
//! impl Tool for Shout {
//!     fn definition(&self) -> ToolDefinition {
//!         let parameters = json!({
//!             "type": "object",
//!             "properties": { "text": { "type": "string" } },
//!             "required": ["text"],
//!         });
//!         ToolDefinition::new("shout", "Says it louder.", parameters)
//!     }
//!
//!     async fn run(&self, arguments: Value, _: &ToolContext) -> Result<ToolSuccess, ToolFailure> {
//!         let text = arguments["text"].as_str().unwrap_or_default().to_uppercase();
//!         Ok(ToolSuccess::text(json!(text), text))
//!     }
//! }
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let tools = ToolRegistry::default();
//! let _guard = tools.register(Arc::new(Shout)).unwrap();
//! let outcome = tools.run("shout", r#"{"text":"hi"}"#, &ToolContext::ownerless("call-1")).await;
//! assert_eq!(outcome.text(), "HI");
//! # });
//! ```

mod registry;
mod schema;
mod tool;
mod violation;

pub use registry::{RegisterError, ToolGuard, ToolRegistry};
pub use schema::SchemaError;
pub use tool::{
    CallPresentation, Tool, ToolContext, ToolDefinition, ToolFailure, ToolKind, ToolOutcome,
    ToolSuccess,
};
pub use violation::{Violation, Violations};
