//! Small pieces of wording.

use std::borrow::Cow;

/// A count with its noun: `1 event`, `2 events`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// A word as a shell reads it back: as it is where that is safe, else in quotes.
pub(crate) fn quoted_for_shell(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(format!("'{}'", word.replace('\'', "'\\''")))
    }
}

#[cfg(test)]
mod tests {
    use super::{counted, quoted_for_shell};

    #[test]
    fn one_is_singular() {
        assert_eq!(counted(0, "event"), "0 events");
        assert_eq!(counted(1, "event"), "1 event");
    }

    #[test]
    fn a_word_is_quoted_where_a_shell_would_take_it_apart() {
        assert_eq!(quoted_for_shell("/home/ada"), "/home/ada");
        assert_eq!(quoted_for_shell("u5~a"), "'u5~a'");
        assert_eq!(quoted_for_shell("it's $HOME"), "'it'\\''s $HOME'");
        assert_eq!(quoted_for_shell(""), "''");
    }
}
