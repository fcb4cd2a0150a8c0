//! The loop as a harness sees it: prompts in, logs out.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod abort;
mod crash;
mod dispatch;
mod ends;
mod models;
mod properties;
mod requests;
mod support;
