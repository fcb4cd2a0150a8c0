//! Colour.

use anstyle::Style;

/// The text in a style, where there is colour; else as it is.
pub(crate) fn paint(color: bool, style: Style, text: &str) -> String {
    if color {
        format!("{style}{text}{style:#}")
    } else {
        text.to_owned()
    }
}
