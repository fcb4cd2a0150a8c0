//! The items of a prompt.

use std::collections::HashSet;

use crate::title::one_line;

/// The most items that a plan takes up.
const MAX_ITEMS: usize = 50;
/// The longest item, in characters.
const MAX_CHARS: usize = 200;

/// What a prompt asks for, one after the other.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Items {
    /// On one line each, none empty, none twice.
    pub(super) kept: Vec<String>,
    /// How many there were beyond the limit.
    pub(super) dropped: usize,
}

impl Items {
    /// The list lines of the text, else its lines, else its sentences, else all of it.
    pub(super) fn of(text: &str) -> Self {
        let listed: Vec<&str> = text.lines().filter_map(list_item).collect();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let items = if !listed.is_empty() {
            listed
        } else if lines.len() > 1 {
            lines
        } else {
            sentences(text)
        };
        let mut seen = HashSet::new();
        let mut kept: Vec<String> = items
            .into_iter()
            .map(|item| one_line(item, MAX_CHARS))
            .filter(|item| !item.is_empty() && seen.insert(item.clone()))
            .collect();
        let dropped = kept.len().saturating_sub(MAX_ITEMS);
        kept.truncate(MAX_ITEMS);
        Self { kept, dropped }
    }

    pub(super) fn counted(&self) -> String {
        match self.kept.len() {
            1 => "1 item".to_owned(),
            count => format!("{count} items"),
        }
    }

    pub(super) fn left_out(&self) -> String {
        match self.dropped {
            0 => String::new(),
            dropped => format!(" (and leave out {dropped} more)"),
        }
    }

    pub(super) fn listed(&self) -> String {
        let lines = self.kept.iter().map(|item| format!("- {item}"));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// What a list line says behind its mark: `-`, `*`, `+` or `•`, a box, or a number.
fn list_item(line: &str) -> Option<&str> {
    let line = line.trim();
    let bulleted = line
        .strip_prefix(['-', '*', '+', '•'])
        .and_then(after_blank);
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = || {
        (digits.len() < line.len())
            .then_some(digits)
            .and_then(|rest| rest.strip_prefix(['.', ')']))
            .and_then(after_blank)
    };
    let marked = bulleted.or_else(numbered);
    let boxed = marked.unwrap_or(line);
    let unboxed = ["[ ]", "[x]", "[X]", "[]"]
        .iter()
        .find_map(|mark| boxed.strip_prefix(mark).and_then(after_blank));
    unboxed.or(marked)
}

fn after_blank(rest: &str) -> Option<&str> {
    rest.starts_with(char::is_whitespace)
        .then(|| rest.trim_start())
}

/// The sentences of a text, without their full stops.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        let ends = match c {
            '。' | '！' | '？' => true,
            '.' | '!' | '?' => {
                text[end..].starts_with(char::is_whitespace) && !is_abbreviation(&text[start..at])
            }
            _ => false,
        };
        if ends {
            sentences.push(&text[start..end]);
            start = end;
        }
    }
    sentences.push(&text[start..]);
    let stops = |c: char| c == '.' || c == '。' || c.is_whitespace();
    sentences
        .into_iter()
        .map(|sentence| sentence.trim().trim_end_matches(stops))
        .collect()
}

/// Whether the last word is one like `e.g` or an initial, whose full stop ends no sentence.
fn is_abbreviation(so_far: &str) -> bool {
    let word = so_far
        .rsplit(char::is_whitespace)
        .next()
        .unwrap_or_default();
    let word = word.trim_start_matches(|c: char| !c.is_alphanumeric());
    let letters = |part: &str| part.chars().count() == 1 && part.chars().all(char::is_alphabetic);
    !word.is_empty() && word.split('.').all(letters)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn items(text: &str) -> Vec<String> {
        Items::of(text).kept
    }

    #[test]
    fn list_lines_are_the_items_and_the_rest_is_not() {
        let text = "Please:\n- one\n* two\n + three\n• four\n1. five\n12) six\n- [ ] seven\n[x] eight\n3. [ ] nine\nThanks.";
        assert_eq!(
            items(text),
            [
                "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"
            ]
        );
    }

    #[test]
    fn what_only_looks_like_a_mark_is_none() {
        assert_eq!(
            items("-flag matters\n1.5 times as fast\n**bold**\n---"),
            ["-flag matters", "1.5 times as fast", "**bold**", "---"]
        );
    }

    #[test]
    fn lines_are_items_where_there_is_no_list() {
        assert_eq!(items("read it\n\n  write it \r\n"), ["read it", "write it"]);
    }

    #[test]
    fn sentences_are_items_where_there_is_one_line() {
        assert_eq!(
            items("Read main.rs, e.g. its top. Is it long? then cut it! Ask J. Doe."),
            [
                "Read main.rs, e.g. its top",
                "Is it long?",
                "then cut it!",
                "Ask J. Doe"
            ]
        );
        assert_eq!(items("読む。書く。"), ["読む", "書く"]);
        assert_eq!(items("Fix the bug"), ["Fix the bug"]);
    }

    #[test]
    fn blank_and_repeated_items_are_dropped() {
        assert_eq!(items("- a\n-  \n- a \n- \u{200b}\n- b"), ["a", "b"]);
        assert_eq!(items(" \n"), [""; 0]);
    }

    #[test]
    fn a_plan_has_limits() {
        let text: Vec<String> = (0..60).map(|n| format!("- {n}")).collect();
        let Items { kept, dropped } = Items::of(&text.join("\n"));
        assert_eq!((kept.len(), dropped), (50, 10));
        assert_eq!(items(&"ä".repeat(300)), ["ä".repeat(200)]);
    }

    proptest! {
        #[test]
        fn items_fit_the_durable_rule(text in "(\\PC|[-*.!? \n\t]|。){0,80}") {
            let items = items(&text);
            let distinct: HashSet<_> = items.iter().collect();
            prop_assert_eq!(distinct.len(), items.len());
            prop_assert!(items.iter().all(|item| !item.is_empty() && item.trim() == item));
        }
    }
}
