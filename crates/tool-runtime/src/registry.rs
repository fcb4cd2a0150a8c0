//! The tools of a harness.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use futures::FutureExt as _;
use serde_json::{Map, Value};

use crate::schema::{Schema, SchemaError};
use crate::violation::{Violation, Violations, quote};
use crate::{
    CallPresentation, Tool, ToolContext, ToolDefinition, ToolFailure, ToolKind, ToolOutcome,
};

/// The tools that an agent may call, in the order in which they were registered.
///
/// Cheap to clone; all clones are the same.
#[derive(Clone, Default)]
pub struct ToolRegistry {
    tools: Arc<RwLock<Vec<Arc<Registered>>>>,
}

struct Registered {
    definition: ToolDefinition,
    schema: Schema,
    tool: Arc<dyn Tool>,
}

/// Why a tool was not registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Another tool has the name.
    #[error("a tool named {name:?} is registered already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// Models take letters, digits, `_` and `-`, at most 64 of them.
    #[error("{name:?} is no name for a tool: 1 to 64 letters, digits, _ or -")]
    BadName {
        /// The name.
        name: String,
    },
    /// The schema of its arguments is none.
    #[error("the parameters of tool {name:?} cannot be used")]
    Schema {
        /// The tool.
        name: String,
        /// Why.
        source: SchemaError,
    },
}

/// Keeps a tool registered; dropping it takes the tool away. Calls in progress go on.
#[must_use = "dropping the guard takes the tool away"]
pub struct ToolGuard {
    tools: Weak<RwLock<Vec<Arc<Registered>>>>,
    registered: Weak<Registered>,
    name: String,
}

impl fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.definitions().iter().map(|tool| &tool.name))
            .finish()
    }
}

impl fmt::Debug for ToolGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ToolGuard").field(&self.name).finish()
    }
}

impl ToolRegistry {
    /// Registers a tool for as long as the guard lives.
    ///
    /// # Errors
    ///
    /// Returns [`RegisterError`]; the registry is as it was.
    pub fn register(&self, tool: Arc<dyn Tool>) -> Result<ToolGuard, RegisterError> {
        let definition = tool.definition();
        let name = definition.name.clone();
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
            return Err(RegisterError::BadName { name });
        }
        let schema =
            Schema::new(&definition.parameters).map_err(|source| RegisterError::Schema {
                name: name.clone(),
                source,
            })?;
        let registered = Arc::new(Registered {
            definition,
            schema,
            tool,
        });
        let mut tools = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        if tools.iter().any(|other| other.definition.name == name) {
            return Err(RegisterError::NameTaken { name });
        }
        tools.push(Arc::clone(&registered));
        let registered = Arc::downgrade(&registered);
        Ok(ToolGuard {
            tools: Arc::downgrade(&self.tools),
            registered,
            name,
        })
    }

    /// What a model is told of the tools.
    #[must_use]
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        let tools = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        tools.iter().map(|tool| tool.definition.clone()).collect()
    }

    /// How a person is shown a call. Falls back to the tool's name and the arguments as they are,
    /// also for a tool that is not registered or whose own presentation panics.
    #[must_use]
    pub fn present(&self, name: &str, arguments: &str) -> CallPresentation {
        let raw_input = parse(arguments).unwrap_or_else(|_| Value::String(arguments.to_owned()));
        let own = self.find(name).and_then(|registered| {
            let present = AssertUnwindSafe(|| registered.tool.present(&raw_input));
            std::panic::catch_unwind(present).ok().flatten()
        });
        own.unwrap_or_else(|| CallPresentation {
            title: name.to_owned(),
            kind: ToolKind::Other,
            raw_input: Some(raw_input),
            locations: Vec::new(),
        })
    }

    /// Whether a call may run beside others; only a tool that says so of arguments that fit.
    #[must_use]
    pub fn is_parallel_safe(&self, name: &str, arguments: &str) -> bool {
        let Some(registered) = self.find(name) else {
            return false;
        };
        let Ok(arguments) = parse(arguments) else {
            return false;
        };
        let ask = AssertUnwindSafe(|| registered.tool.is_parallel_safe(&arguments));
        registered.schema.check(&arguments).is_ok()
            && std::panic::catch_unwind(ask).unwrap_or(false)
    }

    /// Runs a call with the model's raw JSON text. Never fails: an unknown tool, arguments that do
    /// not fit, an error and a panic are outcomes that the model can read.
    ///
    /// Empty text means `{}`. Of a repeated key the last value counts.
    ///
    /// # Cancel safety
    ///
    /// As the tool's.
    pub async fn run(&self, name: &str, arguments: &str, context: &ToolContext) -> ToolOutcome {
        let Some(registered) = self.find(name) else {
            return ToolFailure::coded("UNKNOWN_TOOL", self.unknown(name)).into();
        };
        let checked =
            parse(arguments).and_then(|value| registered.schema.check(&value).map(|()| value));
        let arguments = match checked {
            Ok(arguments) => arguments,
            Err(violations) => {
                let message = format!("invalid arguments: {violations}");
                return ToolFailure::coded("INVALID_ARGS", message).into();
            }
        };
        // In a block, so that a tool that panics before it returns its future is caught as well.
        let work = async { registered.tool.run(arguments, context).await };
        AssertUnwindSafe(work).catch_unwind().await.map_or_else(
            |_| {
                tracing::error!(tool = name, "a tool panicked");
                let message = format!("the tool {name:?} failed unexpectedly");
                ToolFailure::coded("PANIC", message).into()
            },
            ToolOutcome::from,
        )
    }

    fn unknown(&self, name: &str) -> String {
        let known: Vec<_> = self
            .definitions()
            .into_iter()
            .map(|tool| tool.name)
            .collect();
        let name = quote(name);
        if known.is_empty() {
            format!("unknown tool {name}; there are none")
        } else {
            format!("unknown tool {name}; there are: {}", known.join(", "))
        }
    }

    fn find(&self, name: &str) -> Option<Arc<Registered>> {
        let tools = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        tools
            .iter()
            .find(|tool| tool.definition.name == name)
            .cloned()
    }
}

impl Drop for ToolGuard {
    fn drop(&mut self) {
        if let (Some(tools), Some(registered)) = (self.tools.upgrade(), self.registered.upgrade()) {
            // `registered` outlives the lock, since a tool may own the guard of another.
            let mut tools = tools.write().unwrap_or_else(PoisonError::into_inner);
            tools.retain(|tool| !Arc::ptr_eq(tool, &registered));
        }
    }
}

/// The arguments of a call; none at all mean an empty object. Of a repeated key the last value
/// counts, as in most JSON readers.
fn parse(arguments: &str) -> Result<Value, Violations> {
    if arguments.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    serde_json::from_str(arguments)
        .map_err(|error| Violation::new("arguments", format!("not JSON: {error}")).into())
}

#[cfg(test)]
mod tests;
