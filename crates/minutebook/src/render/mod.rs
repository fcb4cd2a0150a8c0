//! What is shown to a person.

mod call;
mod checklist;
mod harmless;
mod line;
mod screen;

pub(crate) use call::call_row;
pub(crate) use checklist::{Checklist, Glyphs};
pub(crate) use harmless::harmless;
pub(crate) use line::{cut, wrap};
pub(crate) use screen::Screen;
