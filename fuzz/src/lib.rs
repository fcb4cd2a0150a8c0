//! What no input may break.
//!
//! Each module has one `check`, which panics where its promise is broken. The programs in
//! `fuzz_targets` hand it what libFuzzer makes up.

pub mod jsonl_import;
pub mod packed_run;
pub mod row_decoder;
