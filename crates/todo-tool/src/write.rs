//! The rule of `todo_write`: configuration and arguments in, event and result out.

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use session_core::event::{Todo, TodoStatus, TodoWrite};
use tool_runtime::Violations;

use crate::{TodoConfig, shape};

/// What an accepted call does and says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What is to be appended: the whole list, contents trimmed. It satisfies
    /// [`TodoWrite::check_rule`].
    pub event: TodoWrite,
    /// How many items have each status.
    pub counts: TodoCounts,
    /// What the model reads.
    pub acknowledgement: String,
}

impl Decision {
    /// The canonical result, for programs: `{ todos, counts }`.
    #[must_use]
    pub fn value(&self) -> Value {
        json!({ "todos": self.event.todos, "counts": self.counts })
    }
}

/// How many items of a list have each status.
///
/// Displays as `1 pending, 2 in progress, 3 completed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TodoCounts {
    /// Not begun.
    pub pending: usize,
    /// Being worked on.
    pub in_progress: usize,
    /// Done.
    pub completed: usize,
}

impl TodoCounts {
    /// The counts of a list.
    #[must_use]
    pub fn of(todos: &[Todo]) -> Self {
        let mut counts = Self::default();
        for todo in todos {
            match todo.status {
                TodoStatus::Pending => counts.pending += 1,
                TodoStatus::InProgress => counts.in_progress += 1,
                TodoStatus::Completed => counts.completed += 1,
            }
        }
        counts
    }
}

impl fmt::Display for TodoCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pending,
            in_progress,
            completed,
        } = self;
        write!(
            f,
            "{pending} pending, {in_progress} in progress, {completed} completed"
        )
    }
}

/// Why a call is not accepted. Displays what the model reads after `Error: `.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TodoError {
    /// The arguments do not fit the schema or the limits.
    #[error("invalid arguments: {0}")]
    Arguments(Violations),
    /// An item says nothing.
    #[error("invalid todo: `content` must be a non-empty string")]
    Empty {
        /// Which item.
        index: usize,
    },
    /// Two items say the same.
    #[error("invalid todos: duplicate content \"{content}\"")]
    Duplicate {
        /// What both say, trimmed.
        content: String,
    },
    /// Several items are in progress where one is allowed.
    #[error("invalid todos: at most one task may be in_progress (got {count})")]
    InProgress {
        /// How many are.
        count: usize,
    },
}

/// Decides on a call: what it appends and answers, or why it is not accepted.
///
/// # Errors
///
/// Returns the first rule that the arguments break, in this order: the schema with its limits,
/// empty content, duplicate content, the number of tasks in progress. Contents are trimmed before
/// all but the first.
pub fn decide(config: &TodoConfig, arguments: &Value) -> Result<Decision, TodoError> {
    let mut todos = shape::read(&config.limits, arguments).map_err(TodoError::Arguments)?;
    for todo in &mut todos {
        let trimmed = todo.content.trim();
        if trimmed.len() < todo.content.len() {
            todo.content = trimmed.to_owned();
        }
    }
    if let Some(index) = todos.iter().position(|todo| todo.content.is_empty()) {
        return Err(TodoError::Empty { index });
    }
    let mut seen = HashSet::new();
    if let Some(twin) = todos.iter().find(|todo| !seen.insert(&todo.content)) {
        let content = twin.content.clone();
        return Err(TodoError::Duplicate { content });
    }
    let counts = TodoCounts::of(&todos);
    if !config.allow_parallel_in_progress && counts.in_progress > 1 {
        let count = counts.in_progress;
        return Err(TodoError::InProgress { count });
    }
    Ok(Decision {
        event: TodoWrite { todos },
        counts,
        acknowledgement: format!("Updated todo list: {counts}."),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(items: &[(&str, &str)]) -> Value {
        let todos: Vec<_> = items
            .iter()
            .map(|(content, status)| json!({ "content": content, "status": status }))
            .collect();
        json!({ "todos": todos })
    }

    fn refusal(allow_parallel: bool, items: &[(&str, &str)]) -> String {
        decide(&TodoConfig::new(allow_parallel), &list(items))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn an_accepted_list_is_trimmed_counted_and_acknowledged() {
        let items = [
            ("\u{a0} a\n", "completed"),
            ("b  b", "in_progress"),
            ("c", "pending"),
        ];
        let decision = decide(&TodoConfig::new(false), &list(&items)).unwrap();
        let contents: Vec<_> = decision
            .event
            .todos
            .iter()
            .map(|todo| &*todo.content)
            .collect();
        assert_eq!(contents, ["a", "b  b", "c"]);
        assert_eq!(
            decision.acknowledgement,
            "Updated todo list: 1 pending, 1 in progress, 1 completed."
        );
        assert_eq!(
            decision.value()["counts"],
            json!({ "pending": 1, "inProgress": 1, "completed": 1 })
        );
    }

    #[test]
    fn an_empty_list_is_valid() {
        for policy in [true, false] {
            let decision = decide(&TodoConfig::new(policy), &list(&[])).unwrap();
            assert_eq!(decision.event, TodoWrite::default());
            assert_eq!(
                decision.acknowledgement,
                "Updated todo list: 0 pending, 0 in progress, 0 completed."
            );
            assert_eq!(
                decision.value(),
                json!({ "todos": [], "counts": { "pending": 0, "inProgress": 0, "completed": 0 } })
            );
        }
    }

    #[test]
    fn empty_content_is_refused() {
        for content in ["", " ", "\t\r\n", "\u{a0}\u{3000}"] {
            assert_eq!(
                refusal(true, &[("a", "pending"), (content, "pending")]),
                "invalid todo: `content` must be a non-empty string"
            );
        }
    }

    #[test]
    fn a_duplicate_is_named_by_its_trimmed_content() {
        assert_eq!(
            refusal(
                true,
                &[("say \"hi\"", "pending"), (" say \"hi\" ", "completed")]
            ),
            "invalid todos: duplicate content \"say \"hi\"\""
        );
        // Other case and other inner spacing are other tasks.
        let items = [("a b", "pending"), ("A b", "pending"), ("a  b", "pending")];
        assert!(decide(&TodoConfig::new(false), &list(&items)).is_ok());
    }

    #[test]
    fn several_in_progress_are_a_matter_of_policy() {
        let items = [
            ("a", "in_progress"),
            ("b", "completed"),
            ("c", "in_progress"),
        ];
        assert_eq!(
            refusal(false, &items),
            "invalid todos: at most one task may be in_progress (got 2)"
        );
        let decision = decide(&TodoConfig::new(true), &list(&items)).unwrap();
        assert_eq!(decision.counts.in_progress, 2);
        // None at all is left to the description.
        for policy in [true, false] {
            let waiting = list(&[("a", "pending")]);
            assert!(decide(&TodoConfig::new(policy), &waiting).is_ok());
        }
    }

    #[test]
    fn the_rules_are_checked_one_after_another_over_the_whole_list() {
        let mut items = vec![
            ("a", "in_progress"),
            ("a", "in_progress"),
            (" ", "pending"),
            ("b", "doing"),
        ];
        assert!(refusal(false, &items).starts_with("invalid arguments: arguments.todos[3].status"));
        items.pop();
        assert!(refusal(false, &items).starts_with("invalid todo: "));
        items.pop();
        assert!(refusal(false, &items).starts_with("invalid todos: duplicate"));
        items[1].0 = "b";
        assert!(refusal(false, &items).starts_with("invalid todos: at most one"));
    }

    #[test]
    fn the_limits_hold_to_the_last_item_and_character() {
        let mut config = TodoConfig::new(true);
        config.limits.max_items = 2;
        config.limits.max_content_chars = 3;
        let fits = list(&[("äöü", "pending"), ("b", "pending")]);
        assert!(decide(&config, &fits).is_ok());
        for (items, problem) in [
            (
                &[("a", "pending"), ("b", "pending"), ("c", "pending")][..],
                "arguments.todos: expected at most 2 items, got 3",
            ),
            (
                // The limit comes first, then trimming.
                &[("äöü ", "pending")],
                "arguments.todos[0].content: expected at most 3 characters, got 4",
            ),
        ] {
            let error = decide(&config, &list(items)).unwrap_err();
            assert_eq!(error.to_string(), format!("invalid arguments: {problem}"));
        }
    }

    fn arbitrary_list() -> impl Strategy<Value = Value> {
        // A small alphabet, so that empty, untrimmed and repeated contents are common.
        let content = prop_oneof!["[ ab\n\u{a0}]{0,3}", any::<String>()];
        let status = prop::sample::select(&TodoStatus::ALL[..]);
        let item = (content, status)
            .prop_map(|(content, status)| json!({ "content": content, "status": status }));
        prop::collection::vec(item, 0..6).prop_map(|todos| json!({ "todos": todos }))
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_satisfies_the_durable_rule(
            arguments in arbitrary_list(),
            policy: bool,
        ) {
            if let Ok(decision) = decide(&TodoConfig::new(policy), &arguments) {
                prop_assert_eq!(decision.event.check_rule(), Ok(()));
                prop_assert_eq!(decision.counts, TodoCounts::of(&decision.event.todos));
                prop_assert!(policy || decision.counts.in_progress <= 1);
                let sent = arguments["todos"].as_array().map(Vec::len);
                prop_assert_eq!(Some(decision.event.todos.len()), sent);
            }
        }

        #[test]
        fn whatever_is_refused_breaks_the_durable_rule_or_the_policy(
            arguments in arbitrary_list(),
            policy: bool,
        ) {
            let refused = decide(&TodoConfig::new(policy), &arguments);
            let mut event: TodoWrite = serde_json::from_value(arguments).unwrap();
            for todo in &mut event.todos {
                todo.content = todo.content.trim().to_owned();
            }
            let breaks_policy = !policy && event.count(TodoStatus::InProgress) > 1;
            prop_assert_eq!(refused.is_err(), event.check_rule().is_err() || breaks_policy);
        }

        #[test]
        fn an_accepted_list_is_accepted_again_unchanged(arguments in arbitrary_list()) {
            let config = TodoConfig::new(true);
            if let Ok(first) = decide(&config, &arguments) {
                let again = serde_json::to_value(&first.event).unwrap();
                prop_assert_eq!(decide(&config, &again), Ok(first));
            }
        }

        #[test]
        fn what_one_task_at_a_time_accepts_parallel_work_accepts_alike(
            arguments in arbitrary_list(),
        ) {
            if let Ok(single) = decide(&TodoConfig::new(false), &arguments) {
                prop_assert_eq!(decide(&TodoConfig::new(true), &arguments), Ok(single));
            }
        }
    }
}
