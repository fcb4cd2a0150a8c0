//! Text of others, made harmless for a terminal.

use std::borrow::Cow;

/// Makes a text harmless to show: control characters become their pictures, and characters that
/// reorder or hide others become their code points. Line breaks and tabs stay.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
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
    match c {
        '\n' | '\t' => false,
        // Controls of both sets; bidirectional embeddings, overrides and isolates; invisible
        // separators, the line and paragraph separators, and the byte order mark.
        '\u{0}'..='\u{1f}'
        | '\u{7f}'..='\u{9f}'
        | '\u{61c}'
        | '\u{200b}'
        | '\u{200e}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::harmless;

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
}
