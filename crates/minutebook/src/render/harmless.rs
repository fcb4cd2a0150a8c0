//! Text of others, made harmless for a terminal.

use std::borrow::Cow;

/// Makes a text harmless to show: control characters become their pictures, and characters that
/// reorder or hide others become their code points. Line breaks and tabs stay.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    disarmed(text, |c| c != '\n' && c != '\t' && is_harmful(c))
}

/// As [`harmless`], for what is to stay on one line: line breaks and tabs become pictures too.
pub(crate) fn harmless_line(text: &str) -> Cow<'_, str> {
    disarmed(text, is_harmful)
}

fn disarmed(text: &str, is_harmful: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !is_harmful(c) => out.push(c),
            '\u{0}'..='\u{1f}' => out.extend(char::from_u32(0x2400 + u32::from(c))),
            '\u{7f}' => out.push('\u{2421}'),
            c => out.push_str(&format!("<U+{:04X}>", u32::from(c))),
        }
    }
    Cow::Owned(out)
}

const fn is_harmful(c: char) -> bool {
    // Controls of both sets; the soft hyphen; bidirectional marks, embeddings, overrides and
    // isolates; invisible separators, of which U+200D stays, since it joins emoji; the line and
    // paragraph separators; the byte order mark; annotations; and tags, which spell unseen text.
    matches!(
        c,
        '\u{0}'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200c}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::{harmless, harmless_line};

    #[test]
    fn a_text_without_harm_is_shown_as_it_is() {
        assert_eq!(harmless("grüße\n\t日本 👩‍💻"), "grüße\n\t日本 👩‍💻");
    }

    #[test]
    fn escapes_and_overrides_lose_their_power() {
        assert_eq!(
            harmless("a\u{1b}[31mb\u{202e}c\0d\r\u{9b}"),
            "a␛[31mb<U+202E>c␀d␍<U+009B>"
        );
    }

    #[test]
    fn what_is_unseen_becomes_seen() {
        assert_eq!(
            harmless("a\u{ad}b\u{200c}c\u{2066}d\u{e0041}"),
            "a<U+00AD>b<U+200C>c<U+2066>d<U+E0041>"
        );
    }

    #[test]
    fn a_line_stays_one_line() {
        assert_eq!(harmless_line("a\n\tb\u{1b}"), "a␊␉b␛");
        assert_eq!(harmless_line("日本 👩‍💻"), "日本 👩‍💻");
    }
}
