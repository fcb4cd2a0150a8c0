//! Logs as lines: which runs of chunks become one row, and which lines are none.

use session_core::jsonl::{self, Decoder, Row};
use session_core::{Event, NewEvent, Payload, UnixMillis};

use crate::support::{header, seq};

/// A piece of text.
fn text(nth: u64, time: i64) -> Event {
    let data = r#"{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"a"}}"#;
    let data = Payload::from_text(data).unwrap();
    NewEvent::raw("assistant/chunk", data, None, false).at(seq(nth), UnixMillis::new(time))
}

/// How many events each row holds; the rows give back the events.
fn rows(times: &[i64]) -> Vec<usize> {
    let events: Vec<Event> = (0..)
        .zip(times)
        .map(|(nth, time)| text(nth, *time))
        .collect();
    let header = header("a");
    let mut decoder = Decoder::new(&jsonl::header_line(&header).unwrap()).unwrap();
    let mut again = Vec::new();
    let lengths = jsonl::pack(&events)
        .iter()
        .map(|row| {
            let line = serde_json::to_string(row).unwrap();
            let run = decoder.push(&line).unwrap();
            assert_eq!(run.len() > 1, matches!(row, Row::Packed(_)));
            again.extend(run.clone());
            run.len()
        })
        .collect();
    assert_eq!(again, events);
    lengths
}

#[test]
fn a_run_of_two_stays_as_it_is_and_one_of_three_becomes_a_row() {
    assert_eq!(rows(&[1, 2]), [1, 1]);
    assert_eq!(rows(&[1, 2, 3]), [3]);
}

#[test]
fn a_clock_that_steps_back_inside_a_run_is_given_back() {
    assert_eq!(rows(&[5, 3, 9, -4]), [4]);
}

#[test]
fn a_gap_beyond_what_json_readers_tell_apart_parts_a_run() {
    let (first, last) = (UnixMillis::MIN.get(), UnixMillis::MAX.get());
    assert_eq!(rows(&[first, first, first, last, last, last]), [3, 3]);
}

/// What comes of a line behind a header.
fn read(line: &str) -> Result<Vec<Event>, String> {
    let mut decoder = Decoder::new(&jsonl::header_line(&header("a")).unwrap()).unwrap();
    decoder.push(line).map_err(|error| {
        assert_eq!(error.line, 2);
        error.fault.to_string()
    })
}

#[test]
fn a_malformed_row_is_an_error_and_never_a_line_passed_over() {
    let row = r#"{"type":"text-chunks","seq0":0,"time0":5,"data":{"turn":1,"step":1,"index":0,"dt":[1,-2],"texts":["a","b","c"]}}"#;
    let times: Vec<i64> = read(row)
        .unwrap()
        .iter()
        .map(|event| event.time_ms().get())
        .collect();
    assert_eq!(times, [5, 6, 4]);
    for (from, to) in [
        ("[1,-2]", "[1]"),
        ("[1,-2]", "[1,0.5]"),
        ("[1,-2]", "[1,9007199254740991]"),
        ("\"b\"", "2"),
        ("\"texts\"", "\"args\""),
        ("text-chunks", "tool-call-chunks"),
        ("\"turn\":1,", ""),
        ("\"index\":0", "\"index\":0,\"more\":1"),
        ("\"seq0\":0", "\"seq0\":9007199254740991"),
        ("\"seq0\":0", "\"seq0\":1"),
    ] {
        let broken = row.replace(from, to);
        assert_ne!(broken, row);
        assert!(read(&broken).is_err(), "{broken}");
    }
}

#[test]
fn an_id_with_half_a_surrogate_pair_is_no_text_and_refused() {
    let line = r#"{"type":"session","version":0,"id":"\ud800","createdAt":1}"#;
    assert!(Decoder::new(line).is_err());
}
