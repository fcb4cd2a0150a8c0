//! The peers of this binary. `eventsdb` has a binary of its own.

pub(crate) mod minutebook;
pub(crate) mod raw;
pub(crate) mod rusqlite_direct;
pub(crate) mod rusqlite_gc;
pub(crate) mod salamander;
pub(crate) mod sqlx_plain;
