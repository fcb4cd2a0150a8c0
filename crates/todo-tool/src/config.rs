//! What a deployment chooses.

use serde::{Deserialize, Serialize};

/// What a deployment chooses.
///
/// There is no default: whether concurrent active tasks are legitimate depends on what the harness
/// runs at once, which the tool cannot see.
///
/// ```compile_fail
/// let config = todo_tool::TodoConfig::default();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TodoConfig {
    /// Whether several tasks may be in progress at once. It changes what the model is told and what
    /// is accepted, together; it never changes what a log may hold.
    pub allow_parallel_in_progress: bool,
    /// How much one list may hold.
    #[serde(default)]
    pub limits: TodoLimits,
}

impl TodoConfig {
    /// A configuration with the default limits.
    #[must_use]
    pub fn new(allow_parallel_in_progress: bool) -> Self {
        Self {
            allow_parallel_in_progress,
            limits: TodoLimits::default(),
        }
    }
}

/// How much one list may hold. Beyond it a call is answered as any other that does not fit the
/// schema. A log may hold longer lists, written under other limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TodoLimits {
    /// Items in a list. Default: 1,000.
    pub max_items: usize,
    /// Characters (Unicode scalar values) in the content of one item, before it is trimmed.
    /// Default: 4,000.
    pub max_content_chars: usize,
}

impl Default for TodoLimits {
    fn default() -> Self {
        Self {
            max_items: 1_000,
            max_content_chars: 4_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn read(value: Value) -> Result<TodoConfig, String> {
        from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn the_policy_must_be_chosen_and_the_limits_need_not() {
        let config = read(json!({ "allow_parallel_in_progress": true }));
        assert_eq!(config, Ok(TodoConfig::new(true)));
        assert_eq!(
            read(json!({ "limits": { "max_items": 3 } })),
            Err("missing field `allow_parallel_in_progress`".to_owned())
        );
        let config = read(json!({
            "allow_parallel_in_progress": false,
            "limits": { "max_items": 3 },
        }));

        assert_eq!(config.unwrap().limits.max_content_chars, 4_000);
        assert!(read(json!({ "allow_parallel_in_progress": false, "limit": {} })).is_err());
    }
}
