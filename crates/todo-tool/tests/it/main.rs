//! `todo_write` as a model reaches it: raw text through a registry onto a real log.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod bad_input;
mod reopened;
mod support;
