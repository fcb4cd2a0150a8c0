//! Tool calls and their results in a conversation.

use session_core::event::{ContentBlock, TodoStatus, TodoWrite, ToolResult};

use super::{harmless, harmless_line};

/// A call on one line: its tool and arguments, or for a to-do list what the list says.
pub(crate) fn call_row(name: &str, arguments: &str) -> String {
    let list = serde_json::from_str::<TodoWrite>(arguments).ok();
    match list.filter(|_| name == todo_tool::NAME) {
        Some(list) => format!("• Update todo list  {}", summary(&list)),
        None => format!("• {} {}", harmless_line(name), harmless(arguments)),
    }
}

/// The texts that a tool returned, as they are.
pub(crate) fn texts(result: &ToolResult) -> impl Iterator<Item = &str> {
    let content = result.outcome().map(|(_, content, _)| content);
    content
        .into_iter()
        .flatten()
        .filter_map(|block| match block {
            ContentBlock::Text { text } => Some(text.as_str()),
            _ => None,
        })
}

/// How far a list is, and what is active; the others that are, by their number.
fn summary(list: &TodoWrite) -> String {
    let done = list.count(TodoStatus::Completed);
    let counts = format!("{done}/{} completed", list.todos.len());
    let mut active = list
        .todos
        .iter()
        .filter(|todo| todo.status == TodoStatus::InProgress);
    let first = active.next().filter(|todo| !todo.content.trim().is_empty());
    match (first, active.count()) {
        (None, _) => counts,
        (Some(first), 0) => format!("{counts} · {}", harmless(&first.content)),
        (Some(first), others) => format!("{counts} · {} +{others}", harmless(&first.content)),
    }
}

#[cfg(test)]
mod tests {
    use super::call_row;

    #[test]
    fn a_list_is_summed_up_with_what_is_active() {
        let arguments = r#"{"todos":[{"content":"A","status":"completed"},
            {"content":"B","status":"in_progress"},{"content":"C","status":"in_progress"},
            {"content":"D","status":"pending"}]}"#;
        let row = call_row("todo_write", arguments);
        assert_eq!(row, "• Update todo list  1/4 completed · B +1");
        let blank = r#"{"todos":[{"content":" ","status":"in_progress"},
            {"content":"C","status":"in_progress"}]}"#;
        assert_eq!(
            call_row("todo_write", blank),
            "• Update todo list  0/2 completed"
        );
    }

    #[test]
    fn arguments_of_another_shape_are_shown_as_they_are() {
        assert_eq!(
            call_row("todo_write", "{\"todos\":\"[]\"}"),
            "• todo_write {\"todos\":\"[]\"}"
        );
        assert_eq!(call_row("look\u{1b}", "{}"), "• look␛ {}");
    }
}
