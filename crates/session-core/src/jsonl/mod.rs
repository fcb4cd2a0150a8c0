//! Logs as JSON lines: a header line, then one record per line.
//!
//! Reads what the original harness writes, packed chunk rows included, and recordings in which
//! `seq` and `time` are left out. Writes one event per line.

pub(crate) mod packed;

use serde::{Deserialize, Serialize};

use crate::event::EventData;
use crate::{Event, Header, HeaderError, Seq, UnixMillis};

pub use packed::{PackedRow, Row, pack};

/// A line that is no part of a log.
#[derive(Debug, thiserror::Error)]
#[error("line {line}")]
pub struct LineError {
    /// Which, from 1.
    pub line: usize,
    /// What is the matter with it.
    #[source]
    pub fault: LineFault,
}

/// What is the matter with a line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineFault {
    /// There is none where the header is due.
    #[error("the file is empty; a log begins with a header line of type \"session\"")]
    NoHeader,
    /// It is not JSON.
    #[error("not JSON; the line may have been cut short")]
    NotJson(#[source] serde_json::Error),
    /// The first line is something else.
    #[error("a log begins with a header line of type \"session\", not {found:?}")]
    NotAHeader {
        /// The type of the line.
        found: String,
    },
    /// The header cannot be used.
    #[error("the header cannot be used")]
    Header(#[source] HeaderError),
    /// It is not an event.
    #[error("not an event")]
    NotAnEvent(#[source] serde_json::Error),
    /// A rule of the envelope is broken.
    #[error("not an event: {0}")]
    Envelope(&'static str),
    /// A packed row does not unpack.
    #[error("malformed packed row: {0}")]
    Packed(String),
    /// Positions have no gaps.
    #[error("event {found} stands where {expected} is due")]
    Gap {
        /// The position that is due.
        expected: Seq,
        /// The position found.
        found: Seq,
    },
}

#[derive(Deserialize)]
struct Kind {
    r#type: String,
}

#[derive(Serialize)]
struct HeaderLine<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    header: &'a Header,
}

/// Reads a log line by line.
#[derive(Debug)]
pub struct Decoder {
    header: Header,
    line: usize,
    next: Seq,
    time: UnixMillis,
}

impl Decoder {
    /// Reads the header line.
    ///
    /// # Errors
    ///
    /// Returns what is the matter with it; another format is named before anything else.
    pub fn new(line: &str) -> Result<Self, LineError> {
        let at = |fault| LineError { line: 1, fault };
        if line.trim().is_empty() {
            return Err(at(LineFault::NoHeader));
        }
        let Kind { r#type: found } =
            serde_json::from_str(line).map_err(|error| at(LineFault::NotJson(error)))?;
        if found != "session" {
            return Err(at(LineFault::NotAHeader { found }));
        }
        let header = Header::from_json(line).map_err(|error| at(LineFault::Header(error)))?;
        Ok(Self {
            time: header.created_at,
            header,
            line: 1,
            next: Seq::ZERO,
        })
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The line that was read last, from 1.
    #[must_use]
    pub const fn line(&self) -> usize {
        self.line
    }

    /// Reads one more line, which holds one event or a packed run of them. A missing `seq` is the
    /// next position, a missing `time` that of the event before. An empty line holds none.
    ///
    /// # Errors
    ///
    /// Returns what is the matter with the line.
    pub fn push(&mut self, line: &str) -> Result<Vec<Event>, LineError> {
        self.line += 1;
        let events = self.read(line).map_err(|fault| LineError {
            line: self.line,
            fault,
        })?;
        for event in &events {
            if event.seq() != self.next {
                let fault = LineFault::Gap {
                    expected: self.next,
                    found: event.seq(),
                };
                return Err(LineError {
                    line: self.line,
                    fault,
                });
            }
            (self.next, self.time) = (self.next.next(), event.time_ms());
        }
        Ok(events)
    }

    fn read(&self, line: &str) -> Result<Vec<Event>, LineFault> {
        if line.trim().is_empty() {
            return Ok(Vec::new());
        }
        let Kind { r#type: kind } = serde_json::from_str(line).map_err(LineFault::NotJson)?;
        if PackedRow::TYPES.contains(&kind.as_str()) {
            let row: PackedRow = serde_json::from_str(line).map_err(LineFault::NotAnEvent)?;
            return row.unpack(self.next, self.time).map_err(LineFault::Packed);
        }
        let wire: crate::event::WireEvent<'_> =
            serde_json::from_str(line).map_err(LineFault::NotAnEvent)?;
        let (seq, time) = (
            wire.seq.unwrap_or(self.next),
            wire.time.unwrap_or(self.time),
        );
        let event = wire.into_new().map_err(LineFault::Envelope)?;
        Ok(vec![event.at(seq, time)])
    }
}

/// The header line of a log, without a line break.
///
/// # Errors
///
/// Returns the serializer's account; a header that was read or checked has none.
pub fn header_line(header: &Header) -> Result<String, serde_json::Error> {
    serde_json::to_string(&HeaderLine {
        r#type: "session",
        header,
    })
}

/// The line of an event, without a line break.
///
/// # Errors
///
/// Returns the serializer's account; an event that was read or appended has none.
pub fn event_line(event: &Event) -> Result<String, serde_json::Error> {
    serde_json::to_string(event)
}
