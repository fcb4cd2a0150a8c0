//! What a store keeps in one row: an event, or a run of events that were appended together.
//!
//! An event by itself lies in columns. A run is one text, in which stream chunks are packed
//! further. Either is compressed when that pays. Records are made once and never changed; what was
//! put in comes out to the letter.

mod compress;
mod run;
mod sources;

use std::sync::Arc;

use crate::event::type_name;
use crate::{Event, NewEvent, Payload, Seq, SurfaceMeta, UnixMillis};

pub use compress::{Data, LARGEST};

/// Events in one record at most, so that a reader of a few does not unpack many.
const EVENTS: usize = 64;
/// Bytes of payload after which a record is full.
const BYTES: usize = 64 << 10;

/// One row of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The position of its first event.
    pub seq: Seq,
    /// How many events it holds.
    pub events: u32,
    /// The type of its event; none where it holds several.
    pub kind: Option<Arc<str>>,
    /// The time of its first event.
    pub time: UnixMillis,
    /// The payload of its event, or all of several.
    pub data: Data,
    /// How its event changes the surface, as JSON.
    pub surface_op: Option<String>,
    /// What its event was made from, as JSON: positions, and pairs of the first and the last of
    /// consecutive ones.
    pub sources: Option<String>,
    /// Whether its event may be passed over.
    pub ignorable: bool,
}

/// Why a record was not made.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The event is larger than a record may be.
    #[error("event {seq} has {bytes} bytes; {LARGEST} is the most that is kept")]
    TooLarge {
        /// Which.
        seq: Seq,
        /// Its size.
        bytes: usize,
    },
    /// The event was made from more others than a record can say.
    #[error(
        "event {seq} names {positions} positions as its sources; {} is the most that is kept",
        sources::MOST
    )]
    TooManySources {
        /// Which.
        seq: Seq,
        /// How many.
        positions: usize,
    },
}

impl Record {
    /// The records of a batch, whose positions follow each other.
    ///
    /// # Errors
    ///
    /// Returns [`RecordError`] for an event that no record holds.
    pub fn of(batch: &[Event]) -> Result<Vec<Self>, RecordError> {
        for event in batch {
            let (seq, bytes) = (event.seq(), size(event));
            let positions = positions(event);
            if bytes > LARGEST {
                return Err(RecordError::TooLarge { seq, bytes });
            }
            if positions > sources::MOST {
                return Err(RecordError::TooManySources { seq, positions });
            }
        }
        Ok(parts(batch).map(Self::of_part).collect())
    }

    fn of_part(part: &[Event]) -> Self {
        match part {
            [event] => Self::of_event(event),
            run => Self::of_run(run),
        }
    }

    fn of_event(event: &Event) -> Self {
        let surface = event.surface();
        Self {
            seq: event.seq(),
            events: 1,
            kind: Some(type_name(event.kind())),
            time: event.time_ms(),
            data: Data::of(event.data().as_str()),
            surface_op: surface.and_then(|surface| serde_json::to_string(&surface.op).ok()),
            sources: surface
                .and_then(|surface| surface.sources.as_ref())
                .map(|seqs| sources::encode(seqs)),
            ignorable: event.is_ignorable(),
        }
    }

    fn of_run(events: &[Event]) -> Self {
        let first = &events[0];
        Self {
            seq: first.seq(),
            events: u32::try_from(events.len()).unwrap_or(u32::MAX),
            kind: None,
            time: first.time_ms(),
            data: Data::of(&run::encode(events)),
            surface_op: None,
            sources: None,
            ignorable: false,
        }
    }

    /// The position after its last event.
    #[must_use]
    pub const fn end(&self) -> Seq {
        self.seq.plus(self.events as u64)
    }

    /// A CRC-32 over all of it.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.seq.get().to_le_bytes());
        hasher.update(&self.events.to_le_bytes());
        hasher.update(&self.time.get().to_le_bytes());
        hasher.update(&[u8::from(self.ignorable)]);
        let (is_text, data) = match &self.data {
            Data::Text(text) => (1, text.as_bytes()),
            Data::Zstd(bytes) => (2, &bytes[..]),
        };
        let texts = [
            self.kind.as_deref(),
            self.surface_op.as_deref(),
            self.sources.as_deref(),
        ];
        let fields = texts.map(|text| text.map(|text| (1, text.as_bytes())));
        for field in fields.into_iter().chain([Some((is_text, data))]) {
            let (mark, bytes) = field.unwrap_or_default();
            hasher.update(&[mark]);
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        }
        hasher.finalize()
    }

    /// Its events. The record is taken at its word: check [`checksum`](Self::checksum) first.
    ///
    /// # Errors
    ///
    /// Returns what does not decode.
    pub fn decode(&self) -> Result<Vec<Event>, String> {
        let text = self.data.text()?;
        let Some(kind) = &self.kind else {
            return run::decode(&text, self.seq, self.time, self.events);
        };
        if self.events != 1 {
            return Err(format!("one type for {} events", self.events));
        }
        let sources = self.sources.as_deref();
        let sources = sources
            .map(|text| sources::decode(text, &mut sources::MOST.clone()))
            .transpose()?;
        let surface = match &self.surface_op {
            Some(op) => Some(SurfaceMeta {
                op: serde_json::from_str(op).map_err(|error| format!("surface_op: {error}"))?,
                sources,
            }),
            None if sources.is_some() => return Err("sources without surface_op".into()),
            None => None,
        };
        let data = Payload::kept(&text);
        let event = NewEvent::raw(Arc::clone(kind), data, surface, self.ignorable);
        Ok(vec![event.at(self.seq, self.time)])
    }
}

fn size(event: &Event) -> usize {
    event.data().as_str().len()
}

fn positions(event: &Event) -> usize {
    let surface = event.surface();
    let sources = surface.and_then(|surface| surface.sources.as_ref());
    sources.map_or(0, Vec::len)
}

/// The parts of a batch that share a record each.
fn parts(batch: &[Event]) -> impl Iterator<Item = &[Event]> {
    let mut rest = batch;
    std::iter::from_fn(move || {
        let (mut bytes, mut named) = (0, 0);
        let fits = |event: &&Event| {
            bytes += size(event);
            named += positions(event);
            bytes <= BYTES && named <= sources::MOST
        };
        let count = rest.iter().take(EVENTS).take_while(fits).count();
        // One that fills a record by itself has one of its own.
        let (part, after) = rest.split_at_checked(count.max(1))?;
        rest = after;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::valid_log;

    fn unpacked(records: &[Record]) -> Vec<Event> {
        let decoded = records.iter().map(|record| record.decode().unwrap());
        decoded.flatten().collect()
    }

    fn event(seq: u32, kind: &str, data: &str, surface: Option<SurfaceMeta>) -> Event {
        let event = NewEvent::raw(kind, Payload::from_text(data).unwrap(), surface, false);
        event.at(Seq::from(seq), UnixMillis::new(-7 * i64::from(seq)))
    }

    proptest! {
        #[test]
        fn what_is_put_in_comes_out_to_the_letter(choices in prop::collection::vec(any::<u8>(), 0..600), cuts in prop::collection::vec(1..200_usize, 1..8)) {
            let log = valid_log(&choices);
            let mut rest = &log[..];
            let mut records = Vec::new();
            for cut in cuts.iter().cycle() {
                let (batch, after) = rest.split_at((*cut).min(rest.len()));
                records.extend(Record::of(batch).unwrap());
                rest = after;
                if rest.is_empty() { break }
            }
            prop_assert_eq!(unpacked(&records), log);
        }

        #[test]
        fn no_bytes_make_a_decoder_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            text in ".{0,200}",
            events in 0..5_u32,
            kind in prop::option::of("[a-z/]{0,8}"),
        ) {
            for data in [Data::Zstd(bytes.clone()), Data::Text(text.clone())] {
                let record = Record {
                    seq: Seq::MAX, events, kind: kind.as_deref().map(Into::into),
                    time: UnixMillis::new(i64::MAX), data, surface_op: Some(text.clone()),
                    sources: Some(text.clone()), ignorable: true,
                };
                let _ = record.decode();
                let _ = record.checksum();
            }
        }
    }

    #[test]
    fn an_event_by_itself_lies_in_columns() {
        let sources = SurfaceMeta::replace(
            Seq::from(3),
            Seq::from(5),
            (3..=90).map(Seq::from).collect(),
        );
        let events = [event(91, "user/message", r#"{"x":1}"#, Some(sources))];
        let records = Record::of(&events).unwrap();
        let [record] = &records[..] else {
            panic!("{records:?}")
        };
        assert_eq!(record.kind.as_deref(), Some("user/message"));
        assert_eq!(record.data, Data::Text(r#"{"x":1}"#.into()));
        assert_eq!(record.sources.as_deref(), Some("[[3,90]]"));
        assert_eq!(unpacked(&records), events);
    }

    #[test]
    fn a_long_batch_is_parted_by_count_and_by_size() {
        let small: Vec<Event> = (0..150).map(|seq| event(seq, "a", "1", None)).collect();
        let counts = |records: &[Record]| -> Vec<u32> {
            records.iter().map(|record| record.events).collect()
        };
        let records = Record::of(&small).unwrap();
        assert_eq!(counts(&records), [64, 64, 22]);
        assert_eq!(unpacked(&records), small);

        let large = format!("\"{}\"", "x".repeat(40 << 10));
        let huge = format!("\"{}\"", "x".repeat(100 << 10));
        let events = [
            event(0, "a", &large, None),
            event(1, "a", &large, None),
            event(2, "a", "1", None),
            event(3, "a", &huge, None),
            event(4, "a", "1", None),
        ];
        let records = Record::of(&events).unwrap();
        assert_eq!(counts(&records), [1, 2, 1, 1]);
        assert_eq!(unpacked(&records), events);
        assert!(Record::of(&[]).unwrap().is_empty());
    }

    #[test]
    fn what_is_made_of_more_events_than_a_record_can_say_is_refused_or_parted() {
        let made_from = |seq, count: usize| {
            let sources = (0..count).map(|_| Seq::ZERO).collect();
            event(seq, "a", "1", Some(SurfaceMeta::append_from(sources)))
        };
        let most = made_from(1, sources::MOST);
        let one_more = [made_from(0, 1), made_from(1, sources::MOST + 1)];
        assert!(matches!(
            Record::of(&one_more),
            Err(RecordError::TooManySources { seq, positions })
                if seq == Seq::from(1) && positions == sources::MOST + 1
        ));
        let counts = parts(&[made_from(0, 1), most])
            .map(<[_]>::len)
            .collect::<Vec<_>>();
        assert_eq!(counts, [1, 1]);
    }

    #[test]
    fn every_column_counts_for_the_checksum() {
        let records = Record::of(&[event(
            1,
            "user/message",
            "1",
            Some(SurfaceMeta::append_from(vec![])),
        )]);
        let record = records.unwrap().remove(0);
        let others = [
            Record {
                seq: Seq::ZERO,
                ..record.clone()
            },
            Record {
                events: 2,
                ..record.clone()
            },
            Record {
                kind: Some("user/messagf".into()),
                ..record.clone()
            },
            Record {
                kind: None,
                ..record.clone()
            },
            Record {
                time: UnixMillis::EPOCH,
                ..record.clone()
            },
            Record {
                data: Data::Text("2".into()),
                ..record.clone()
            },
            Record {
                data: Data::Zstd(b"1".to_vec()),
                ..record.clone()
            },
            Record {
                surface_op: None,
                ..record.clone()
            },
            Record {
                sources: None,
                ..record.clone()
            },
            Record {
                ignorable: true,
                ..record.clone()
            },
        ];
        for other in others {
            assert_ne!(other.checksum(), record.checksum(), "{other:?}");
        }
    }
}
