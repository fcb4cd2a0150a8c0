//! The agent, driven as a client drives it: with lines of JSON.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod lifecycle;
mod listing;
mod prompting;
mod replaying;
mod support;
mod transcripts;
