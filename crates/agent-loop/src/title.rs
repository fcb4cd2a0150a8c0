//! Titles: one clean line.

use session_core::event::ContentBlock;

/// The longest title, in characters.
pub const MAX_CHARS: usize = 60;

/// The text as one line that can be shown anywhere, of at most [`MAX_CHARS`] characters.
///
/// Terminal sequences (CSI, OSC and the other escapes), control characters, and characters that are
/// invisible or turn the direction of writing are taken out; runs of white space become one blank.
/// The result is trimmed, and empty where nothing is left.
///
/// ```
/// let title = agent_loop::title::normalise("\u{1b}[31mFix\u{1b}[0m\n  the\u{202e} bug ");
/// assert_eq!(title, "Fix the bug");
/// ```
#[must_use]
pub fn normalise(text: &str) -> String {
    one_line(text, MAX_CHARS)
}

/// The first words of a prompt's text, as a title; `None` where it has none.
pub(crate) fn of_prompt(prompt: &[ContentBlock]) -> Option<String> {
    let texts = prompt.iter().filter_map(|block| match block {
        ContentBlock::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.map(first_words).find(|title| !title.is_empty())
}

/// As [`normalise`], but cut between words where there is a place to.
fn first_words(text: &str) -> String {
    let longer = one_line(text, MAX_CHARS + 1);
    let Some((end, _)) = longer.char_indices().nth(MAX_CHARS) else {
        return longer;
    };
    let cut = longer[..=end].rfind(' ').unwrap_or(end);
    longer[..cut].trim_end().to_owned()
}

/// As [`normalise`], with a limit of its own.
pub(crate) fn one_line(text: &str, max_chars: usize) -> String {
    let mut line = String::new();
    let (mut length, mut blank_due) = (0, false);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c.is_whitespace() {
            blank_due = length > 0;
        } else if skip_sequence(c, &mut rest) || c.is_control() || is_invisible(c) {
            // Out.
        } else {
            let due = usize::from(blank_due) + 1;
            if length + due > max_chars {
                break;
            }
            if std::mem::take(&mut blank_due) {
                line.push(' ');
            }
            line.push(c);
            length += due;
        }
    }
    line
}

/// Moves past the terminal sequence that `c` begins; false where it begins none.
fn skip_sequence(c: char, rest: &mut std::str::Chars<'_>) -> bool {
    let introducer = match c {
        '\u{1b}' => {
            let Some(next) = peek(rest) else {
                return true;
            };
            next
        }
        // The same introducers as single characters (C1).
        '\u{90}' => 'P',
        '\u{98}' => 'X',
        '\u{9b}' => '[',
        '\u{9d}' => ']',
        '\u{9e}' => '^',
        '\u{9f}' => '_',
        _ => return false,
    };
    let escaped = c == '\u{1b}';
    match introducer {
        '[' => {
            if escaped {
                rest.next();
            }
            skip_while(rest, |c| matches!(c, ' '..='?'));
            skip_one(rest, |c| matches!(c, '@'..='~'));
        }
        ']' | 'P' | 'X' | '^' | '_' => {
            if escaped {
                rest.next();
            }
            skip_string(rest);
        }
        _ => {
            skip_while(rest, |c| matches!(c, ' '..='/'));
            skip_one(rest, |c| matches!(c, '0'..='~'));
        }
    }
    true
}

/// Moves past a string and its terminator. A line break ends it too, so that a stray introducer
/// does not swallow the whole text.
fn skip_string(rest: &mut std::str::Chars<'_>) {
    while let Some(c) = peek(rest) {
        match c {
            '\n' | '\r' => return,
            '\u{7}' | '\u{9c}' => {
                rest.next();
                return;
            }
            '\u{1b}' => {
                rest.next();
                skip_one(rest, |c| c == '\\');
                return;
            }
            _ => {
                rest.next();
            }
        }
    }
}

fn peek(rest: &std::str::Chars<'_>) -> Option<char> {
    rest.clone().next()
}

fn skip_one(rest: &mut std::str::Chars<'_>, matches: impl Fn(char) -> bool) {
    if peek(rest).is_some_and(matches) {
        rest.next();
    }
}

fn skip_while(rest: &mut std::str::Chars<'_>, matches: impl Fn(char) -> bool) {
    while peek(rest).is_some_and(&matches) {
        rest.next();
    }
}

/// Format characters and blank fillers: zero width, bidirectional controls, variation selectors,
/// tags.
const fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_title_is_one_clean_line() {
        for (text, title) in [
            ("  a\t b\r\n c  ", "a b c"),
            ("\u{1b}]0;owned\u{7}a\u{1b}]8;;x\u{1b}\\b", "ab"),
            ("\u{9b}31ma\u{9d}t\u{9c}b\u{90}q\u{1b}\\c", "abc"),
            ("\u{1b}(Ba\u{1b}cb\u{1b}", "ab"),
            ("\u{1b}]never ended\nb", "b"),
            ("a\u{202e}b\u{200b}c\u{2066}d\u{feff}", "abcd"),
            ("a\u{2028}b\u{85}c", "a b c"),
            ("a\u{0}\u{8}b\u{7f}", "ab"),
            ("\u{1b}[1;31", ""),
            (" \n", ""),
            ("Grüße 世界", "Grüße 世界"),
        ] {
            assert_eq!(normalise(text), title, "{text:?}");
        }
    }

    #[test]
    fn a_long_title_is_cut_on_a_character() {
        assert_eq!(normalise(&"ß".repeat(70)), "ß".repeat(60));
        let words = "abcd ".repeat(20);
        assert_eq!(normalise(&words), "abcd ".repeat(12).trim_end());
    }

    #[test]
    fn the_title_of_a_prompt_ends_with_a_whole_word() {
        let title = |text: &str| of_prompt(&[ContentBlock::text(text)]);
        assert_eq!(
            title("one two three four five six seven eight nine ten eleven twelve"),
            Some("one two three four five six seven eight nine ten eleven".to_owned())
        );
        assert_eq!(title(&"x".repeat(70)), Some("x".repeat(60)));
        let exact = format!("{} {}", "a".repeat(29), "b".repeat(30));
        assert_eq!(title(&exact), Some(exact.clone()));
        assert_eq!(title(&format!("{exact} c")), Some(exact));
    }

    #[test]
    fn the_title_of_a_prompt_is_its_first_text_that_shows() {
        let prompt = [ContentBlock::text("\u{200b}"), ContentBlock::text("a")];
        assert_eq!(of_prompt(&prompt), Some("a".to_owned()));
        assert_eq!(of_prompt(&[]), None);
    }

    proptest! {
        #[test]
        fn a_title_is_short_clean_and_stays_as_it_is(text in "(\\PC|[\u{0}-\u{9f}]|\u{202e}){0,90}") {
            let title = normalise(&text);
            prop_assert!(title.chars().count() <= MAX_CHARS);
            prop_assert!(!title.chars().any(|c| c.is_control() || is_invisible(c)));
            prop_assert_eq!(title.trim(), &title);
            prop_assert_eq!(normalise(&title), title);
        }
    }
}
