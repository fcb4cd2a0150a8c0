//! Fitting text into the columns of a terminal.

use unicode_width::UnicodeWidthChar as _;

/// Cuts a line to `width` columns; what is cut is marked with an ellipsis. Line breaks become
/// spaces.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let flat = text.replace(['\n', '\t'], " ");
    if columns(&flat) <= width {
        return flat;
    }
    if width == 0 {
        return String::new();
    }
    let mut out = String::new();
    let mut used = 1;
    for c in flat.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

/// Breaks a text without line breaks into lines of at most `width` columns, at spaces where there
/// are any.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    let mut break_at = None;
    for c in text.chars() {
        let c = if c == '\t' { ' ' } else { c };
        if c == ' ' {
            break_at = Some(line.len());
        }
        line.push(c);
        used += c.width().unwrap_or(0);
        while used > width {
            let at = break_at.take().unwrap_or(line.len() - c.len_utf8());
            if at == 0 && !line.starts_with(' ') {
                // One character wider than the line: there is no better place for it.
                break;
            }
            let rest = line.split_off(at);
            lines.push(std::mem::replace(
                &mut line,
                rest.strip_prefix(' ').unwrap_or(&rest).to_owned(),
            ));
            used = columns(&line);
        }
    }
    lines.push(line);
    lines
}

/// How many rows of `width` columns a painted line takes.
pub(crate) fn rows(line: &str, width: usize) -> usize {
    let mut used = 0;
    let mut rest = line;
    while let Some((text, styled)) = rest.split_once('\u{1b}') {
        used += columns(text);
        // The only escapes here are styles, which end with an m.
        rest = styled.split_once('m').map_or("", |(_, rest)| rest);
    }
    used += columns(rest);
    used.div_ceil(width.max(1)).max(1)
}

fn columns(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::{columns, cut, rows, wrap};
    use proptest::prelude::*;

    #[test]
    fn a_line_that_fits_is_not_cut() {
        assert_eq!(cut("日本", 4), "日本");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("a\nb", 9), "a b");
        assert_eq!(cut("a", 0), "");
    }

    #[test]
    fn a_text_is_broken_at_spaces() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("", 3), [""]);
    }

    #[test]
    fn a_line_takes_the_rows_that_its_columns_fill() {
        assert_eq!(rows("", 4), 1);
        assert_eq!(rows("abcd", 4), 1);
        assert_eq!(rows("日本語", 4), 2);
        assert_eq!(rows("\u{1b}[1mabcd\u{1b}[0m", 4), 1);
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_asked(text in "[a-z 日é]{0,60}", width in 0_usize..20) {
            for line in wrap(&text, width.max(2)) {
                prop_assert!(columns(&line) <= width.max(2));
            }
            prop_assert!(columns(&cut(&text, width)) <= width);
        }
    }
}
