//! Import of JSON lines: what is read is written and read again without loss, and is judged alike.

use std::str;

use session_core::jsonl::{self, Decoder};
use session_core::{Event, Header, LogState, Payload, Violation, Vocabulary, repair};

/// A log as an import reads it.
#[derive(Debug, PartialEq)]
struct Log {
    header: Header,
    events: Vec<Event>,
}

/// Checks what can be read of `data`, which is all up to the first fault.
///
/// # Panics
///
/// Panics where an import would lose something, or judge the same log in two ways.
pub fn check(data: &[u8]) {
    let lines = data
        .split(|byte| *byte == b'\n')
        .map_while(|line| str::from_utf8(line).ok());
    let Some(log) = read(lines) else { return };

    let written = write(&log);
    assert_eq!(read_whole(&written), log, "{written:#?}");
    let packed = pack(&log);
    assert_eq!(read_whole(&packed), log, "{packed:#?}");

    let known = Vocabulary::original_harness();
    let whole = LogState::fold(&known, &log.events);
    let (state, refused) = one_by_one(&known, &log.events);
    match whole {
        Ok(whole) => {
            assert_eq!(refused, None, "{written:#?}");
            same(&whole, &state);
        }
        Err(violation) => assert_eq!(Some(violation), refused, "{written:#?}"),
    }
    // What was accepted before a violation is a log too.
    close(&known, state);
}

/// Reads up to the first fault. `None` when the header has one.
fn read<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<Log> {
    let first = lines.next()?;
    let mut decoder = Decoder::new(first).ok()?;
    let header = decoder.header().clone();
    let again = jsonl::header_line(&header).expect("a header that was read can be written");
    same_value(first, &again);
    let mut events = Vec::new();
    for line in lines {
        let Ok(decoded) = decoder.push(line) else {
            break;
        };
        if let [event] = &decoded[..]
            && serde_json::from_str::<Event>(line).is_ok()
        {
            same_value(line, &write_event(event));
        }
        events.extend(decoded);
    }
    Some(Log { header, events })
}

/// Whether what was read says the same as what was written, to the last digit.
fn same_value(line: &str, again: &str) {
    let parse = |text| Payload::from_text(text).expect("a line that was read is JSON");
    assert!(
        parse(line).same_value(&parse(again)),
        "read {line:?}, wrote {again:?}"
    );
}

/// Reads lines that have no fault.
fn read_whole(lines: &[String]) -> Log {
    let (first, rest) = lines.split_first().expect("the header was written");
    let mut decoder = Decoder::new(first).expect("a header that was written can be read");
    let mut events = Vec::new();
    for line in rest {
        assert!(!line.contains('\n'), "{line:?}");
        events.extend(decoder.push(line).expect("a written line can be read"));
    }
    let header = decoder.header().clone();
    Log { header, events }
}

fn write(log: &Log) -> Vec<String> {
    let header = jsonl::header_line(&log.header).expect("a header can be written");
    let events = log.events.iter().map(write_event);
    [header].into_iter().chain(events).collect()
}

fn write_event(event: &Event) -> String {
    jsonl::event_line(event).expect("an event that was read can be written")
}

fn pack(log: &Log) -> Vec<String> {
    let header = jsonl::header_line(&log.header).expect("a header can be written");
    let rows = jsonl::pack(&log.events);
    let rows = rows
        .iter()
        .map(|row| serde_json::to_string(row).expect("a row can be written"));
    [header].into_iter().chain(rows).collect()
}

/// What a live session would make of the events: the state up to the first that it refuses.
fn one_by_one(known: &Vocabulary, events: &[Event]) -> (LogState, Option<Violation>) {
    let mut state = LogState::default();
    for event in events {
        match state.stage_all(known, [event]) {
            Ok(staged) => state.apply(staged),
            Err(violation) => return (state, Some(violation)),
        }
    }
    (state, None)
}

fn same(a: &LogState, b: &LogState) {
    assert_eq!(a.next_seq(), b.next_seq());
    assert_eq!(a.last_time(), b.last_time());
    assert_eq!(a.trace(), b.trace());
    assert_eq!(a.surface().order(), b.surface().order());
    assert_eq!(a.surface().generation(), b.surface().generation());
    assert_eq!(a.messages(), b.messages());
    assert_eq!(a.title(), b.title());
    assert_eq!(a.request_header(), b.request_header());
    assert_eq!(a.request_context(), b.request_context());
    assert_eq!(a.ends_with_end_seed(), b.ends_with_end_seed());
}

/// Opening the log would close its interrupted turn: with events that it may hold, and for good.
fn close(known: &Vocabulary, mut state: LogState) {
    let closers = repair(&state);
    let staged = state
        .stage_all(known, &closers)
        .expect("what closes a turn may follow");
    state.apply(staged);
    assert_eq!(state.trace().open_turn(), None);
    assert_eq!(repair(&state), []);
}
