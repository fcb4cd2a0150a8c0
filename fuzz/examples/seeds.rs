//! Writes the seeds of the targets from the fixtures of the tests.
//!
//! `cargo run --manifest-path fuzz/Cargo.toml --example seeds`

use std::error::Error;
use std::fs;
use std::path::Path;

use session_core::jsonl::{self, Decoder};
use session_core::store::record::{Data, Record};
use session_core::testing::valid_log;
use session_core::{Event, Header, UnixMillis};

fn main() -> Result<(), Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let seeds = here.join("corpus-seeds");
    let log = fs::read_to_string(here.join("../tests/fixtures/valve-gear.jsonl"))?;

    let logs = seeds.join("jsonl_import");
    fs::create_dir_all(&logs)?;
    fs::write(logs.join("valve-gear.jsonl"), &log)?;
    let mut lines = log.lines();
    let mut decoder = Decoder::new(lines.next().unwrap_or_default())?;
    let mut events = Vec::new();
    for line in lines {
        events.extend(decoder.push(line)?);
    }
    let unpacked = text(decoder.header(), &events)?;
    fs::write(logs.join("valve-gear-unpacked.jsonl"), unpacked)?;
    for (nth, length) in [20, 60, 180, 540].into_iter().enumerate() {
        let log = valid_log(&bytes(nth, length));
        let header = Header::new(format!("valid-{length}").into(), UnixMillis::EPOCH);
        let name = format!("valid-{length}.jsonl");
        fs::write(logs.join(name), text(&header, &log)?)?;
    }

    let rows = seeds.join("packed_run");
    fs::create_dir_all(&rows)?;
    let packed = log.lines().filter(|line| line.contains("-chunks\""));
    for (nth, line) in packed.enumerate() {
        fs::write(rows.join(format!("row-{nth}.json")), line)?;
    }
    for (nth, length) in [50, 500, 2_000].into_iter().enumerate() {
        fs::write(rows.join(format!("plan-{length}")), bytes(nth, length))?;
    }

    let records = seeds.join("row_decoder");
    fs::create_dir_all(&records)?;
    for (nth, record) in Record::of(&events)?.iter().enumerate().take(8) {
        match &record.data {
            Data::Zstd(frame) => fs::write(records.join(format!("frame-{nth}")), frame)?,
            Data::Text(text) => fs::write(records.join(format!("text-{nth}")), text)?,
        }
    }
    // Few enough that they are not compressed.
    for (nth, batch) in events.chunks(3).enumerate().take(8) {
        for record in Record::of(batch)? {
            if let (Data::Text(text), None) = (&record.data, &record.kind) {
                let text = format!("{}\n{text}", record.events);
                fs::write(records.join(format!("run-{nth}")), text)?;
            }
        }
    }
    for (nth, length) in [50, 500, 2_000].into_iter().enumerate() {
        fs::write(records.join(format!("plan-{length}")), bytes(nth, length))?;
    }
    Ok(())
}

fn text(header: &Header, events: &[Event]) -> Result<String, serde_json::Error> {
    let mut text = jsonl::header_line(header)? + "\n";
    for event in events {
        text += &jsonl::event_line(event)?;
        text.push('\n');
    }
    Ok(text)
}

/// Bytes without a pattern, the same in each run.
fn bytes(seed: usize, length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed as u64 + 1);
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(length).collect()
}
