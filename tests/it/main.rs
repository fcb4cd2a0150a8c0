//! The program as its users have it, the crates as a harness composes them, and real clients.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bad_input;
mod chat;
mod clients;
mod commands;
mod crash;
mod crowd;
mod guarantees;
mod heads;
mod logs;
mod memory;
mod newer;
mod quarantine;
mod schema;
mod terminal;
