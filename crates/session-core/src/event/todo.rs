//! The agent's task list, as the log keeps it.

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{EventData, LogOnly, strict};

/// The whole task list, replaced wholesale by each write; the last one wins. It is never part of
/// the surface, so the model sees only its own call and the result.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TodoWrite {
    /// The items, in the model's order.
    #[serde(deserialize_with = "strict::objects")]
    pub todos: Vec<Todo>,
}

/// One item of a task list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Todo {
    /// What is to be done: trimmed, not empty, unique in its list.
    pub content: String,
    /// How far it is.
    #[serde(deserialize_with = "strict::word")]
    pub status: TodoStatus,
}

/// How far an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Being worked on.
    InProgress,
    /// Done.
    Completed,
}

impl TodoStatus {
    /// The three statuses, in the order of their life.
    pub const ALL: [Self; 3] = [Self::Pending, Self::InProgress, Self::Completed];

    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }
}

impl fmt::Display for TodoStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the log demands of a list, whatever policy it was written under (design section 5). It
/// says nothing of how many items are in progress.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TodoRule {
    /// An item without content.
    #[error("todos[{index}].content must be a non-empty string")]
    Empty {
        /// Which item.
        index: usize,
    },
    /// An item with white space around its content.
    #[error("todos[{index}].content must be trimmed")]
    Untrimmed {
        /// Which item.
        index: usize,
    },
    /// Two items with the same content.
    #[error("todos[{index}].content is a duplicate: {content:?}")]
    Duplicate {
        /// The second of them.
        index: usize,
        /// What both say.
        content: String,
    },
}

impl TodoWrite {
    /// Checks the durable rule: trimmed, non-empty, unique content.
    ///
    /// # Errors
    ///
    /// Returns the first item that breaks it.
    pub fn check_rule(&self) -> Result<(), TodoRule> {
        let mut seen = HashSet::new();
        for (index, Todo { content, .. }) in self.todos.iter().enumerate() {
            let trimmed = content.trim();
            if trimmed.is_empty() {
                return Err(TodoRule::Empty { index });
            }
            if trimmed.len() != content.len() {
                return Err(TodoRule::Untrimmed { index });
            }
            if !seen.insert(trimmed) {
                return Err(TodoRule::Duplicate {
                    index,
                    content: content.clone(),
                });
            }
        }
        Ok(())
    }

    /// How many items have this status.
    #[must_use]
    pub fn count(&self, status: TodoStatus) -> usize {
        self.todos
            .iter()
            .filter(|todo| todo.status == status)
            .count()
    }
}

impl EventData for TodoWrite {
    const TYPE: &'static str = "todo/write";

    fn check(&self) -> Result<(), String> {
        self.check_rule().map_err(|rule| rule.to_string())
    }
}
impl LogOnly for TodoWrite {}
