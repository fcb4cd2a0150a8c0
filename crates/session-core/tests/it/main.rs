//! Tests that cross modules: stores, live sessions, whole logs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod conformance_notices;
mod faults;
mod gaps;
mod gated;
#[cfg(feature = "sqlite")]
mod golden;
mod jsonl;
mod laws;
mod model;
mod session_append;
mod session_fork;
mod session_life;
mod session_observe;
mod session_subscribe;
#[cfg(feature = "sqlite")]
mod sqlite_chain;
#[cfg(feature = "sqlite")]
mod sqlite_damage;
#[cfg(feature = "sqlite")]
mod sqlite_full;
#[cfg(feature = "sqlite")]
mod sqlite_guards;
#[cfg(feature = "sqlite")]
mod sqlite_identity;
#[cfg(feature = "sqlite")]
mod sqlite_place;
#[cfg(feature = "sqlite")]
mod sqlite_reading;
#[cfg(feature = "sqlite")]
mod sqlite_writers;
mod stores;
mod support;
mod upcasting;
