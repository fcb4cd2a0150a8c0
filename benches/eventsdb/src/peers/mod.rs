//! The one peer of this binary.

pub(crate) mod eventsdb;
