//! What the model is told of `todo_write`.

use serde_json::{Value, json};
use session_core::event::TodoStatus;
use tool_runtime::ToolDefinition;

use crate::{TodoConfig, TodoLimits};

/// The name that the tool is called by.
pub const NAME: &str = "todo_write";

/// The tool's definition under a configuration: the same text at every call.
#[must_use]
pub fn definition(config: &TodoConfig) -> ToolDefinition {
    ToolDefinition::new(NAME, description(config), parameters(&config.limits))
}

fn description(config: &TodoConfig) -> String {
    let policy = if config.allow_parallel_in_progress {
        "Mark every task that is actively worked on as in_progress, including work that runs in \
         parallel (subagents, background commands). While work remains, at least one task is \
         in_progress."
    } else {
        "Mark exactly one task as in_progress while work remains. A list with more than one is \
         refused."
    };
    format!(
        "\
Keep the task list for the user's current request. The user watches it as live progress.

Use it when the work takes three or more steps, when the user asks for several things or for a \
list, and when new work turns up on the way. Skip it for a single simple task, a question or a \
conversation.

Rules:
- Send the ENTIRE list on every call, in working order. It replaces the previous list: a task that \
you leave out is gone. An empty list clears it.
- content: one specific task in a few words, such as \"Add a test for the login form\". It must be \
unique in the list. Keep its wording from call to call, so that progress can be followed.
- status: pending (not started), in_progress (being worked on) or completed (done).
- {policy}
- Mark a task in_progress before you begin it and completed as soon as it is done; never save up \
updates.
- Complete only what is fully done, never while tests fail or a part is missing; add a task for what \
is in the way.
- Add tasks that you discover. Leave out tasks that no longer matter.
- The list ends when the user sends the next message. If its work goes on, send it again.

The result only counts the tasks. The user sees the list, so do not repeat it in your answer."
    )
}

fn parameters(limits: &TodoLimits) -> Value {
    json!({
        "type": "object",
        "properties": {
            "todos": {
                "type": "array",
                "description": "The entire list, as an array of objects.",
                "maxItems": limits.max_items,
                "items": {
                    "type": "object",
                    "properties": {
                        "content": {
                            "type": "string",
                            "description": "What is to be done. Not empty, unique in the list.",
                            "maxLength": limits.max_content_chars,
                        },
                        "status": {
                            "type": "string",
                            "description": "How far it is.",
                            "enum": TodoStatus::ALL.map(TodoStatus::as_str),
                        },
                    },
                    "required": ["content", "status"],
                    "additionalProperties": false,
                },
            },
        },
        "required": ["todos"],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_and_the_description_are_pinned() {
        // What the model reads on each request: change it knowingly.
        insta::assert_json_snapshot!("parameters", parameters(&TodoLimits::default()));
        insta::assert_snapshot!("description_parallel", description(&TodoConfig::new(true)));
        insta::assert_snapshot!("description_single", description(&TodoConfig::new(false)));
    }

    #[test]
    fn the_policy_changes_one_line_of_the_description_and_nothing_else() {
        let [parallel, single] = [true, false].map(|policy| definition(&TodoConfig::new(policy)));
        assert_eq!(parallel.parameters, single.parameters);
        let differing: Vec<_> = parallel
            .description
            .lines()
            .zip(single.description.lines())
            .filter(|(parallel, single)| parallel != single)
            .collect();
        let [(parallel, single)] = differing[..] else {
            panic!("{differing:?}");
        };
        assert!(parallel.contains("Mark every task that is actively worked on as in_progress"));
        assert!(single.contains("Mark exactly one task as in_progress while work remains"));
    }

    #[test]
    fn the_limits_are_told_to_the_model() {
        let mut config = TodoConfig::new(true);
        config.limits.max_items = 7;
        config.limits.max_content_chars = 9;
        let parameters = definition(&config).parameters;
        let list = &parameters["properties"]["todos"];
        assert_eq!(list["maxItems"], 7);
        assert_eq!(list["items"]["properties"]["content"]["maxLength"], 9);
    }
}
