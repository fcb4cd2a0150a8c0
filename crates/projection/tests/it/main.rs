//! Projections over live and stored sessions.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

mod checkpoints;
mod cold;
mod failing;
mod feed;
mod live;
mod resuming;
mod store;
mod units;
mod upcasting;
mod verifying;
