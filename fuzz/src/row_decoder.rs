//! Rows of a database: none brings the reader down, and what was put in comes out to the letter.

use arbitrary::{Arbitrary, Unstructured};
use session_core::store::record::{Data, Record};
use session_core::testing::valid_log;
use session_core::{Event, NewEvent, Seq, UnixMillis};

use crate::packed_run;

/// Takes `data` for the text of a run when it begins with a digit, which says how many events are
/// due, for a compressed one when it begins like a frame, else for the plan of a row or of a log.
///
/// # Panics
///
/// Panics where a row would be read as something else than was written.
pub fn check(data: &[u8]) {
    const FRAME: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
    let text = std::str::from_utf8(data).ok();
    let due = text.and_then(|text| text.split_once('\n'));
    let due = due.and_then(|(count, text)| Some((count.parse().ok()?, text)));
    if let Some((count, text)) = due {
        check_row(&run(count, Data::Text(text.into())));
    } else if data.starts_with(FRAME) {
        for count in [1, 3, 64] {
            check_row(&run(count, Data::Zstd(data.into())));
        }
    } else {
        let mut plan = Unstructured::new(data);
        match plan.arbitrary() {
            Ok(Plan::Row(row)) => check_row(&row.record()),
            Ok(Plan::Chunks { cut, flip }) => check_log(&packed_run::stream(&mut plan), cut, flip),
            Ok(Plan::Log { cut, flip }) => check_log(&valid_log(plan.take_rest()), cut, flip),
            Ok(Plan::Both { cut, flip }) => {
                let (chunks, rest) = data.split_at(data.len() / 2);
                let mut events = packed_run::stream(&mut Unstructured::new(chunks));
                events.extend(valid_log(rest));
                check_log(&events, cut, flip);
            }
            Err(_) => {}
        }
    }
}

#[derive(Debug, Arbitrary)]
enum Plan<'a> {
    Row(Row<'a>),
    /// A stream of chunks, cut into batches; then a byte of its rows is changed.
    Chunks {
        cut: u8,
        flip: u16,
    },
    /// A log that follows all rules.
    Log {
        cut: u8,
        flip: u16,
    },
    Both {
        cut: u8,
        flip: u16,
    },
}

#[derive(Debug, Arbitrary)]
struct Row<'a> {
    seq: u64,
    events: u32,
    kind: Option<&'a str>,
    time: i64,
    is_text: bool,
    surface_op: Option<&'a str>,
    sources: Option<&'a str>,
    ignorable: bool,
    data: &'a [u8],
}

impl Row<'_> {
    fn record(self) -> Record {
        let data = if self.is_text {
            Data::Text(String::from_utf8_lossy(self.data).into())
        } else {
            Data::Zstd(self.data.into())
        };
        Record {
            seq: Seq::new(self.seq).unwrap_or(Seq::MAX),
            events: self.events,
            kind: self.kind.map(Into::into),
            time: UnixMillis::new(self.time),
            data,
            surface_op: self.surface_op.map(Into::into),
            sources: self.sources.map(Into::into),
            ignorable: self.ignorable,
        }
    }
}

fn run(events: u32, data: Data) -> Record {
    Record {
        seq: Seq::ZERO,
        events,
        kind: None,
        time: UnixMillis::EPOCH,
        data,
        surface_op: None,
        sources: None,
        ignorable: false,
    }
}

/// Any row is decoded or refused; what it holds can be kept again.
fn check_row(record: &Record) {
    let _ = record.checksum();
    let Ok(events) = record.decode() else { return };
    assert_eq!(events.len(), record.events as usize);
    if record.end() < Seq::MAX {
        for (event, due) in events.iter().zip(record.seq.get()..) {
            assert_eq!(event.seq().get(), due, "{record:?}");
        }
        let records = Record::of(&events).expect("what was kept can be kept again");
        assert_eq!(decoded(&records), events, "{record:?}");
    }
}

/// Events come out as they went in, whatever the batches, and no changed byte goes unnoticed.
fn check_log(events: &[Event], cut: u8, flip: u16) {
    let events: Vec<Event> = (0_u32..).zip(events).map(placed).collect();
    let batches = events.chunks(usize::from(cut) + 1);
    let records = batches.flat_map(|batch| Record::of(batch).expect("they are small"));
    let records: Vec<Record> = records.collect();
    assert_eq!(decoded(&records), events, "{records:#?}");
    for record in records {
        let before = record.checksum();
        if let Some(changed) = changed(record, flip.into()) {
            assert_ne!(changed.checksum(), before, "{changed:?}");
            // A reader looks at the checksum first; without it nothing worse than an error comes.
            check_row(&changed);
        }
    }
}

/// The event at a position without gaps.
fn placed((seq, event): (u32, &Event)) -> Event {
    let surface = event.surface().cloned();
    let data = event.data().clone();
    let new = NewEvent::raw(event.kind(), data, surface, event.is_ignorable());
    new.at(Seq::from(seq), event.time_ms())
}

fn decoded(records: &[Record]) -> Vec<Event> {
    let events = records
        .iter()
        .map(|record| record.decode().expect("what was made can be decoded"));
    events.flatten().collect()
}

/// The record with one byte of its data changed; none where the text would be none any more.
fn changed(record: Record, flip: usize) -> Option<Record> {
    let (mut bytes, is_text) = match record.data {
        Data::Text(text) => (text.into_bytes(), true),
        Data::Zstd(bytes) => (bytes, false),
    };
    let nth = flip.checked_rem(bytes.len())?;
    bytes[nth] ^= 1;
    let data = if is_text {
        Data::Text(String::from_utf8(bytes).ok()?)
    } else {
        Data::Zstd(bytes)
    };
    Some(Record { data, ..record })
}
