//! What is shown to a person.

mod call;
mod checklist;
mod harmless;
mod line;
mod paint;
mod screen;
mod words;

pub(crate) use call::{call_row, texts};
pub(crate) use checklist::{Checklist, Glyphs};
pub(crate) use harmless::{harmless, harmless_line};
pub(crate) use line::{cut, rows, wrap};
pub(crate) use paint::paint;
pub(crate) use screen::{Screen, Size};
pub(crate) use words::{counted, quoted_for_shell};
