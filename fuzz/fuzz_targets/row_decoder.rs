#![no_main]
#![expect(missing_docs, reason = "its crate is the entry point alone")]

libfuzzer_sys::fuzz_target!(|data: &[u8]| session_fuzz::row_decoder::check(data));
