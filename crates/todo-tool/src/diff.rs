//! What one list changed in the one before.

use std::collections::HashMap;
use std::fmt;

use session_core::event::{Todo, TodoStatus};

/// One difference between two lists. Items are the same when their contents are.
///
/// Displays as a verb and the content, as in `started: Fix the bug`. Contents are as the model
/// wrote them and may hold control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TodoChange {
    /// Not in the old list.
    Added {
        /// The item.
        todo: Todo,
        /// Its place in the new list.
        at: usize,
    },
    /// Not in the new list.
    Dropped {
        /// The item as it was.
        todo: Todo,
        /// Its place in the old list.
        at: usize,
    },
    /// From pending to in progress.
    Started {
        /// What it says.
        content: String,
    },
    /// From in progress back to pending.
    Paused {
        /// What it says.
        content: String,
    },
    /// To completed.
    Finished {
        /// What it says.
        content: String,
    },
    /// From completed back to work.
    Reopened {
        /// What it says.
        content: String,
        /// Whether it is worked on again.
        in_progress: bool,
    },
    /// In both lists, in another order. As few items as possible count as moved.
    Moved {
        /// What it says.
        content: String,
        /// Its place in the old list.
        from: usize,
        /// Its place in the new list.
        to: usize,
    },
}

impl TodoChange {
    /// What the item says.
    #[must_use]
    pub fn content(&self) -> &str {
        match self {
            Self::Added { todo, .. } | Self::Dropped { todo, .. } => &todo.content,
            Self::Started { content }
            | Self::Paused { content }
            | Self::Finished { content }
            | Self::Reopened { content, .. }
            | Self::Moved { content, .. } => content,
        }
    }

    /// What happened to the item, in one word.
    #[must_use]
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::Added { .. } => "added",
            Self::Dropped { .. } => "dropped",
            Self::Started { .. } => "started",
            Self::Paused { .. } => "paused",
            Self::Finished { .. } => "finished",
            Self::Reopened { .. } => "reopened",
            Self::Moved { .. } => "moved",
        }
    }

    /// Whether work was given up: an item that was not completed is gone.
    #[must_use]
    pub fn drops_open_work(&self) -> bool {
        matches!(self, Self::Dropped { todo, .. } if todo.status != TodoStatus::Completed)
    }

    fn of_status(content: &str, old: TodoStatus, new: TodoStatus) -> Option<Self> {
        use TodoStatus::{Completed, InProgress, Pending};
        let content = content.to_owned();
        match (old, new) {
            (Pending, Pending) | (InProgress, InProgress) | (Completed, Completed) => None,
            (Pending, InProgress) => Some(Self::Started { content }),
            (InProgress, Pending) => Some(Self::Paused { content }),
            (Pending | InProgress, Completed) => Some(Self::Finished { content }),
            (Completed, Pending | InProgress) => Some(Self::Reopened {
                content,
                in_progress: new == InProgress,
            }),
        }
    }
}

impl fmt::Display for TodoChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.verb(), self.content())
    }
}

/// What `new` changed in `old`: first what it dropped, in the old order, then the rest in the new
/// order. Empty exactly when the lists are equal.
///
/// Takes `O(n log n)` for lists that satisfy the durable rule. Of contents that repeat, which no
/// log holds, all but the first are taken as new items.
#[must_use]
pub fn diff(old: &[Todo], new: &[Todo]) -> Vec<TodoChange> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (place, todo) in old.iter().enumerate() {
        places.entry(&todo.content).or_insert(place);
    }
    let matched: Vec<Option<usize>> = new
        .iter()
        .map(|todo| places.remove(todo.content.as_str()))
        .collect();

    let mut is_kept = vec![false; old.len()];
    for place in matched.iter().flatten() {
        is_kept[*place] = true;
    }
    let dropped = old.iter().enumerate().zip(is_kept);
    let dropped = dropped.filter_map(|((at, todo), is_kept)| {
        let todo = todo.clone();
        (!is_kept).then_some(TodoChange::Dropped { todo, at })
    });

    let mut changes: Vec<_> = dropped.collect();
    let in_order = longest_rising(&matched);
    for (to, (todo, place)) in new.iter().zip(&matched).enumerate() {
        let content = &todo.content;
        match place {
            None => changes.push(TodoChange::Added {
                todo: todo.clone(),
                at: to,
            }),
            Some(from) => {
                changes.extend(TodoChange::of_status(
                    content,
                    old[*from].status,
                    todo.status,
                ));
                if !in_order[to] {
                    changes.push(TodoChange::Moved {
                        content: content.clone(),
                        from: *from,
                        to,
                    });
                }
            }
        }
    }
    changes
}

/// Marks the members of a longest strictly rising subsequence, by patience sorting.
fn longest_rising(values: &[Option<usize>]) -> Vec<bool> {
    // piles[n]: where the lowest end of a rising run of n + 1 members stands.
    let mut piles: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; values.len()];
    for (place, value) in values.iter().enumerate() {
        if value.is_some() {
            let pile = piles.partition_point(|&end| values[end] < *value);
            before[place] = pile.checked_sub(1).map(|lower| piles[lower]);
            match piles.get_mut(pile) {
                Some(end) => *end = place,
                None => piles.push(place),
            }
        }
    }
    let mut marks = vec![false; values.len()];
    let mut member = piles.last().copied();
    while let Some(place) = member {
        marks[place] = true;
        member = before[place];
    }
    marks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(items: &str) -> Vec<Todo> {
        let todo = |item: &str| {
            let (mark, content) = item.split_at(1);
            let status = match mark {
                "x" => TodoStatus::Completed,
                "~" => TodoStatus::InProgress,
                _ => TodoStatus::Pending,
            };
            let content = content.to_owned();
            Todo { content, status }
        };
        items.split_whitespace().map(todo).collect()
    }

    fn told(old: &str, new: &str) -> Vec<String> {
        let changes = diff(&list(old), &list(new));
        changes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn equal_lists_have_no_difference() {
        assert!(told("", "").is_empty());
        assert!(told("xa ~b .c", "xa ~b .c").is_empty());
    }

    #[test]
    fn each_step_of_an_item_has_its_verb() {
        for (old, new, expected) in [
            ("", ".a", "added: a"),
            ("", "xa", "added: a"),
            (".a", "", "dropped: a"),
            (".a", "~a", "started: a"),
            ("~a", ".a", "paused: a"),
            ("~a", "xa", "finished: a"),
            (".a", "xa", "finished: a"),
            ("xa", "~a", "reopened: a"),
            ("xa", ".a", "reopened: a"),
            (".a .b .c", ".c .a .b", "moved: c"),
        ] {
            assert_eq!(told(old, new), [expected], "{old} -> {new}");
        }
    }

    #[test]
    fn changes_come_dropped_first_then_in_the_new_order() {
        assert_eq!(
            told("xa ~b .c .d .e", ".f xb ~d .c"),
            [
                "dropped: a",
                "dropped: e",
                "added: f",
                "finished: b",
                "started: d",
                "moved: d"
            ]
            .map(str::to_owned)
            .to_vec()
        );
    }

    #[test]
    fn work_that_was_given_up_is_told_from_work_that_was_done() {
        let changes = diff(&list("xa ~b .c"), &[]);
        let open: Vec<_> = changes.iter().map(TodoChange::drops_open_work).collect();
        assert_eq!(open, [false, true, true]);
    }

    #[test]
    fn repeated_contents_are_new_items() {
        assert_eq!(told(".a", ".a .a"), ["added: a"]);
        assert_eq!(told(".a .a", ".a"), ["dropped: a"]);
    }

    /// Makes the new list from the old one and the changes.
    fn applied(old: &[Todo], changes: &[TodoChange]) -> Vec<Todo> {
        let mut status: HashMap<&str, TodoStatus> = HashMap::new();
        let mut leaving = Vec::new();
        let mut entering = Vec::new();
        for change in changes {
            match change {
                TodoChange::Started { content } => {
                    status.insert(content, TodoStatus::InProgress);
                }
                TodoChange::Paused { content } => {
                    status.insert(content, TodoStatus::Pending);
                }
                TodoChange::Finished { content } => {
                    status.insert(content, TodoStatus::Completed);
                }
                TodoChange::Reopened {
                    content,
                    in_progress,
                } => {
                    let open = [TodoStatus::Pending, TodoStatus::InProgress];
                    status.insert(content, open[usize::from(*in_progress)]);
                }
                TodoChange::Added { todo, at } => entering.push((*at, todo.clone())),
                TodoChange::Dropped { todo, at } => {
                    assert_eq!(old[*at], *todo);
                    leaving.push(*at);
                }
                TodoChange::Moved { content, from, to } => {
                    assert_eq!(old[*from].content, *content);
                    leaving.push(*from);
                    entering.push((*to, old[*from].clone()));
                }
            }
        }
        let staying = old.iter().enumerate();
        let staying = staying.filter(|(place, _)| !leaving.contains(place));
        let mut new: Vec<_> = staying.map(|(_, todo)| todo.clone()).collect();
        for (at, todo) in entering {
            new.insert(at, todo);
        }
        for todo in &mut new {
            if let Some(status) = status.get(todo.content.as_str()) {
                todo.status = *status;
            }
        }
        new
    }

    fn arbitrary_list() -> impl Strategy<Value = Vec<Todo>> {
        let status = prop::sample::select(&TodoStatus::ALL[..]);
        let items = prop::collection::hash_map("[a-h]", status, 0..8);
        let todo = |(content, status)| Todo { content, status };
        items
            .prop_map(move |items| items.into_iter().map(todo).collect::<Vec<_>>())
            .prop_shuffle()
    }

    proptest! {
        #[test]
        fn the_changes_lead_from_the_old_list_to_the_new_one(
            old in arbitrary_list(),
            new in arbitrary_list(),
        ) {
            let changes = diff(&old, &new);
            prop_assert_eq!(applied(&old, &changes), new.clone());
            prop_assert_eq!(changes.is_empty(), old == new);
        }

        #[test]
        fn there_and_back_mention_the_same_items(old in arbitrary_list(), new in arbitrary_list()) {
            let count = |changes: Vec<TodoChange>, verb: &str| {
                changes.iter().filter(|change| change.verb() == verb).count()
            };
            let (there, back) = (|| diff(&old, &new), || diff(&new, &old));
            prop_assert_eq!(count(there(), "added"), count(back(), "dropped"));
            prop_assert_eq!(count(there(), "started"), count(back(), "paused"));
            prop_assert_eq!(count(there(), "finished"), count(back(), "reopened"));
            prop_assert_eq!(count(there(), "moved"), count(back(), "moved"));
        }
    }
}
