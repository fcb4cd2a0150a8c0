//! The hash chain over a log.
//!
//! A head says, in 32 bytes, what a log holds up to a position. Noted outside, it shows later
//! whether the log is still the one that it was.

use std::fmt;
use std::str::FromStr;

use crate::Event;

/// The end of the hash chain at some position of a log: a BLAKE3 hash over the events up to there.
///
/// It depends on the events alone, not on the session's id, on how a store keeps them, or on how
/// they were batched; an exported log that is imported elsewhere has the same heads.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainHash([u8; 32]);

/// A text that is no head of a chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not the head of a hash chain, which is 64 hexadecimal digits: {0:?}")]
pub struct InvalidChainHash(pub String);

/// The hash of one event by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventHash([u8; 32]);

impl EventHash {
    /// The hash of an event: its place, its time, its type, its payload to the letter, and its
    /// surface metadata.
    #[must_use]
    pub fn of(event: &Event) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&event.seq().get().to_le_bytes());
        hasher.update(&event.time_ms().get().to_le_bytes());
        let mut field = |present: u8, bytes: &[u8]| {
            // The length keeps two fields apart from two others of the same joined bytes.
            hasher.update(&[present]);
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        field(u8::from(event.is_ignorable()), event.kind().as_bytes());
        field(1, event.data().as_str().as_bytes());
        if let Some(surface) = event.surface() {
            match surface.op {
                crate::SurfaceOp::Append => field(1, &[]),
                crate::SurfaceOp::Replace { start, end } => {
                    field(
                        2,
                        &[start.get().to_le_bytes(), end.get().to_le_bytes()].concat(),
                    );
                }
            }
            let sources = surface.sources.as_ref();
            let bytes = sources.map(|seqs| seqs.iter().flat_map(|seq| seq.get().to_le_bytes()));
            let bytes: Vec<u8> = bytes.into_iter().flatten().collect();
            field(u8::from(sources.is_some()), &bytes);
        }
        Self(*hasher.finalize().as_bytes())
    }
}

impl ChainHash {
    /// The head of an empty log.
    pub const GENESIS: Self = Self([0; 32]);

    /// The head after one more event.
    #[must_use]
    pub fn then(self, event: EventHash) -> Self {
        let mut both = [0; 64];
        let (before, after) = both.split_at_mut(32);
        before.copy_from_slice(&self.0);
        after.copy_from_slice(&event.0);
        Self(*blake3::hash(&both).as_bytes())
    }

    /// The head after more events.
    #[must_use]
    pub fn over<'e>(self, events: impl IntoIterator<Item = &'e Event>) -> Self {
        let hashes = events.into_iter().map(EventHash::of);
        hashes.fold(self, Self::then)
    }

    /// Takes the 32 bytes of a head.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes of the head.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ChainHash {
    type Err = InvalidChainHash;

    fn from_str(text: &str) -> Result<Self, InvalidChainHash> {
        let hash = blake3::Hash::from_hex(text).map_err(|_| InvalidChainHash(text.into()))?;
        Ok(Self(*hash.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::given::{appended, log, result, step_start, turn_start};
    use crate::{NewEvent, Payload, Seq, SurfaceMeta, UnixMillis};

    fn head(event: &Event) -> ChainHash {
        ChainHash::GENESIS.over([event])
    }

    #[test]
    fn every_part_of_an_event_counts() {
        let data = Payload::from_text("[1]").unwrap();
        let sources = |seqs: Vec<Seq>| Some(SurfaceMeta::append_from(seqs));
        let event = |kind: &str, data: &Payload, surface, ignorable, seq: u32, time| {
            let event = NewEvent::raw(kind, data.clone(), surface, ignorable);
            event.at(Seq::from(seq), UnixMillis::new(time))
        };
        let other = Payload::from_text("[2]").unwrap();
        let (a, b) = (Seq::from(1), Seq::from(2));
        let events = [
            event("x", &data, None, false, 0, 0),
            event("y", &data, None, false, 0, 0),
            event("x", &other, None, false, 0, 0),
            event("x", &data, None, true, 0, 0),
            event("x", &data, None, false, 1, 0),
            event("x", &data, None, false, 0, 1),
            event("x", &data, Some(SurfaceMeta::append()), false, 0, 0),
            event("x", &data, sources(vec![]), false, 0, 0),
            event("x", &data, sources(vec![a, b]), false, 0, 0),
            event("x", &data, sources(vec![b, a]), false, 0, 0),
            event(
                "x",
                &data,
                Some(SurfaceMeta::replace(a, b, vec![])),
                false,
                0,
                0,
            ),
        ];
        let heads: std::collections::HashSet<ChainHash> = events.iter().map(head).collect();
        assert_eq!(heads.len(), events.len());
    }

    #[test]
    fn a_head_depends_on_the_order_and_not_on_the_batches() {
        let events = log([
            turn_start(1),
            step_start(1, 1),
            appended(&result(1, 1, "c")),
        ]);
        let whole = ChainHash::GENESIS.over(&events);
        let parts = ChainHash::GENESIS.over(&events[..1]).over(&events[1..]);
        assert_eq!(whole, parts);
        assert_ne!(whole, ChainHash::GENESIS.over(events.iter().rev()));
    }

    #[test]
    fn a_head_reads_back_and_garbage_does_not() {
        let noted = ChainHash::GENESIS.over(&log([turn_start(1)]));
        assert_eq!(noted.to_string().parse(), Ok(noted));
        for text in ["", "00", "z".repeat(64).as_str()] {
            assert!(text.parse::<ChainHash>().is_err(), "{text}");
        }
    }
}
