//! Values folded from session logs.

mod unit;

pub use unit::{Changed, Unit, VisibleUnit};
