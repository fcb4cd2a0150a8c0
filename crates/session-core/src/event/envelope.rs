//! The envelope of an event, and its one wire shape.

use std::borrow::Cow;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::strict::{self, Object};
use super::{EventData, LogOnly, OnSurface, SURFACE_TYPES, type_name};
use crate::{Payload, Seq, UnixMillis};

/// How an event changes the surface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurfaceOp {
    /// Joins at the end.
    Append,
    /// Takes the place of the contiguous run of surface events from `start` to `end`.
    Replace {
        /// First event of the run, in surface order.
        start: Seq,
        /// Last event of the run, in surface order.
        end: Seq,
    },
}

/// What only surface events carry: how they join, and which events they were made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurfaceMeta {
    /// How the event changes the surface.
    pub op: SurfaceOp,
    /// The events it was made from, in any order; `None` where that was not recorded. Empty is
    /// legal only on an assistant message, whose stream is then known to have been empty.
    pub sources: Option<Vec<Seq>>,
}

impl SurfaceMeta {
    /// Joins at the end of the surface, sources not recorded.
    #[must_use]
    pub const fn append() -> Self {
        Self {
            op: SurfaceOp::Append,
            sources: None,
        }
    }

    /// Joins at the end of the surface, made from `sources`.
    #[must_use]
    pub const fn append_from(sources: Vec<Seq>) -> Self {
        Self {
            op: SurfaceOp::Append,
            sources: Some(sources),
        }
    }

    /// Replaces the run from `start` to `end`; `sources` must name every event that it removes.
    #[must_use]
    pub const fn replace(start: Seq, end: Seq, sources: Vec<Seq>) -> Self {
        Self {
            op: SurfaceOp::Replace { start, end },
            sources: Some(sources),
        }
    }
}

/// An event that has no place in a log yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    kind: Arc<str>,
    data: Payload,
    surface: Option<SurfaceMeta>,
    ignorable: bool,
}

impl NewEvent {
    /// A log-only event.
    ///
    /// # Panics
    ///
    /// Never for types whose `Serialize` cannot fail, which is every derived one without
    /// non-string map keys.
    #[must_use]
    pub fn new<P: LogOnly>(payload: &P) -> Self {
        Self::build(payload, None)
    }

    /// An event that joins the surface as `surface` says.
    #[must_use]
    pub fn on_surface<P: OnSurface>(payload: &P, surface: SurfaceMeta) -> Self {
        Self::build(payload, Some(surface))
    }

    /// An event of any type from its JSON, as importers have it. What it claims is checked when it
    /// is appended.
    #[must_use]
    pub fn raw(
        kind: impl Into<Arc<str>>,
        data: Payload,
        surface: Option<SurfaceMeta>,
        ignorable: bool,
    ) -> Self {
        Self {
            kind: kind.into(),
            data,
            surface,
            ignorable,
        }
    }

    fn build<P: EventData>(payload: &P, surface: Option<SurfaceMeta>) -> Self {
        let data = Payload::of(payload).expect("a payload's serializer does not fail");
        Self {
            kind: type_name(P::TYPE),
            data,
            surface,
            ignorable: P::IGNORABLE,
        }
    }

    /// The `type` string.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The payload.
    #[must_use]
    pub const fn data(&self) -> &Payload {
        &self.data
    }

    /// Gives the event its place in a log.
    #[must_use]
    pub fn at(self, seq: Seq, time: UnixMillis) -> Event {
        let Self {
            kind,
            data,
            surface,
            ignorable,
        } = self;
        Event {
            seq,
            time,
            kind,
            data,
            surface: surface.map(Arc::new),
            ignorable,
        }
    }
}

/// One event of a log. Cheap to clone.
///
/// Serializes to the wire shape: `type`, `seq`, `time`, `data`, and where they apply
/// `sourceEventSeqs`, `surfaceOp` and `ignorable`; no other key is accepted when reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    seq: Seq,
    time: UnixMillis,
    kind: Arc<str>,
    data: Payload,
    surface: Option<Arc<SurfaceMeta>>,
    ignorable: bool,
}

impl Event {
    /// Position in the log.
    #[must_use]
    pub const fn seq(&self) -> Seq {
        self.seq
    }

    /// When it was appended, as a date.
    #[must_use]
    pub fn time(&self) -> DateTime<Utc> {
        self.time.datetime()
    }

    /// When it was appended, as logs write it.
    #[must_use]
    pub const fn time_ms(&self) -> UnixMillis {
        self.time
    }

    /// The `type` string.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The payload, verbatim.
    #[must_use]
    pub const fn data(&self) -> &Payload {
        &self.data
    }

    /// How it changes the surface; `None` for log-only events.
    #[must_use]
    pub fn surface(&self) -> Option<&SurfaceMeta> {
        self.surface.as_deref()
    }

    /// Whether a reader that does not know the type may pass over it.
    #[must_use]
    pub const fn is_ignorable(&self) -> bool {
        self.ignorable
    }

    /// Whether its type is `P`'s.
    #[must_use]
    pub fn is<P: EventData>(&self) -> bool {
        *self.kind == *P::TYPE
    }

    /// Whether its type is one that joins the surface.
    #[must_use]
    pub fn is_surface_type(&self) -> bool {
        SURFACE_TYPES.contains(&self.kind())
    }

    /// Reads the payload as a `P`; `None` when the event is of another type or does not decode.
    /// Events of a log that was opened have been checked, so there `None` means another type.
    #[must_use]
    pub fn decode<P: EventData>(&self) -> Option<P> {
        if self.is::<P>() {
            self.data.decode().ok()
        } else {
            None
        }
    }

    /// The same event with another payload.
    pub(crate) fn with_data(self, data: Payload) -> Self {
        Self { data, ..self }
    }

    /// The event without its place.
    #[must_use]
    pub fn into_new(self) -> NewEvent {
        let surface = self.surface.map(Arc::unwrap_or_clone);
        NewEvent {
            kind: self.kind,
            data: self.data,
            surface,
            ignorable: self.ignorable,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WireOp {
    Append(#[serde(deserialize_with = "strict::word")] AppendWord),
    Replace(#[serde(deserialize_with = "strict::object")] WireReplace),
}

#[derive(Serialize, Deserialize)]
enum AppendWord {
    #[serde(rename = "append")]
    Append,
}

#[derive(Serialize, Deserialize)]
enum ReplaceWord {
    #[serde(rename = "replace")]
    Replace,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireReplace {
    #[serde(deserialize_with = "strict::word")]
    op: ReplaceWord,
    start: Seq,
    end: Seq,
}

impl Serialize for SurfaceOp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Append => WireOp::Append(AppendWord::Append),
            Self::Replace { start, end } => WireOp::Replace(WireReplace {
                op: ReplaceWord::Replace,
                start,
                end,
            }),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SurfaceOp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match WireOp::deserialize(deserializer) {
            Ok(WireOp::Append(AppendWord::Append)) => Ok(Self::Append),
            Ok(WireOp::Replace(WireReplace { start, end, .. })) => Ok(Self::Replace { start, end }),
            Err(_) => Err(de::Error::custom(
                "surfaceOp must be \"append\" or {\"op\":\"replace\",\"start\",\"end\"}",
            )),
        }
    }
}

/// The envelope as JSON has it. `seq` and `time` are optional only where an importer assigns them.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WireEvent<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: Cow<'a, str>,
    #[serde(
        default,
        deserialize_with = "not_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) seq: Option<Seq>,
    #[serde(
        default,
        deserialize_with = "not_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) time: Option<UnixMillis>,
    pub(crate) data: Payload,
    #[serde(
        default,
        deserialize_with = "not_null",
        skip_serializing_if = "Option::is_none"
    )]
    source_event_seqs: Option<Cow<'a, [Seq]>>,
    #[serde(
        default,
        deserialize_with = "not_null",
        skip_serializing_if = "Option::is_none"
    )]
    surface_op: Option<SurfaceOp>,
    #[serde(
        default,
        deserialize_with = "not_null",
        skip_serializing_if = "Option::is_none"
    )]
    ignorable: Option<bool>,
}

/// A key that is there holds a value: null would read as absent, and not be written back.
fn not_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl WireEvent<'_> {
    pub(crate) fn into_new(self) -> Result<NewEvent, &'static str> {
        let surface = match (self.surface_op, self.source_event_seqs) {
            (Some(op), sources) => Some(SurfaceMeta {
                op,
                sources: sources.map(Cow::into_owned),
            }),
            (None, None) => None,
            (None, Some(_)) => return Err("sourceEventSeqs needs surfaceOp"),
        };
        let ignorable = match self.ignorable {
            None => false,
            Some(true) => true,
            Some(false) => return Err("ignorable may only be true"),
        };
        Ok(NewEvent::raw(
            type_name(&self.kind),
            self.data,
            surface,
            ignorable,
        ))
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WireEvent {
            kind: Cow::Borrowed(&self.kind),
            seq: Some(self.seq),
            time: Some(self.time),
            data: self.data.clone(),
            source_event_seqs: self
                .surface
                .as_ref()
                .and_then(|surface| surface.sources.as_deref().map(Cow::Borrowed)),
            surface_op: self.surface.as_ref().map(|surface| surface.op),
            ignorable: self.ignorable.then_some(true),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Object(wire) = Object::<WireEvent<'_>>::deserialize(deserializer)?;
        let seq = wire.seq.ok_or_else(|| de::Error::missing_field("seq"))?;
        let time = wire.time.ok_or_else(|| de::Error::missing_field("time"))?;
        Ok(wire.into_new().map_err(de::Error::custom)?.at(seq, time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{TodoWrite, UserMessage};

    fn read(text: &str) -> Result<Event, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn an_event_reads_back_to_the_letter() {
        for text in [
            r#"{"type":"turn/start","seq":1,"time":-5,"data":{"turn":1}}"#,
            r#"{"type":"user/message","seq":9,"time":5,"data":{"x":12345678901234567890123},"sourceEventSeqs":[7,3],"surfaceOp":{"op":"replace","start":7,"end":3}}"#,
            r#"{"type":"assistant/message","seq":9,"time":5,"data":null,"sourceEventSeqs":[],"surfaceOp":"append"}"#,
            r#"{"type":"acme/x","seq":0,"time":0,"data":[],"ignorable":true}"#,
        ] {
            assert_eq!(serde_json::to_string(&read(text).unwrap()).unwrap(), text);
        }
    }

    #[test]
    fn an_envelope_with_another_key_or_value_is_refused() {
        for text in [
            r#"{"type":"a","seq":0,"time":0,"data":1,"extra":1}"#,
            r#"{"type":"a","seq":0,"time":0}"#,
            r#"{"type":"a","seq":0,"time":0,"data":1,"ignorable":false}"#,
            r#"{"type":"a","seq":-1,"time":0,"data":1}"#,
            r#"{"type":"a","seq":0,"time":0.5,"data":1}"#,
            r#"{"type":"a","seq":9007199254740992,"time":0,"data":1}"#,
            r#"{"type":"a","seq":0,"time":0,"data":1,"surfaceOp":"prepend"}"#,
            r#"{"type":"a","seq":0,"time":0,"data":1,"sourceEventSeqs":[1]}"#,
            r#"{"type":"a","seq":0,"time":0,"data":1,"surfaceOp":{"op":"replace","start":0,"end":0,"x":1}}"#,
            r#"{"type":"a","seq":0,"time":0,"data":1,"surfaceOp":{"op":"replace","start":0}}"#,
            r#"{"type":"a","seq":0,"time":0,"data":1,"surfaceOp":null}"#,
            r#"{"type":"a","seq":0,"time":0,"data":1,"surfaceOp":"append","sourceEventSeqs":null}"#,
            r#"{"type":"a","seq":0,"time":0,"data":1,"ignorable":null}"#,
            r#"{"type":"a","seq":0,"seq":0,"time":0,"data":1}"#,
            r#"{"type":1,"seq":0,"time":0,"data":1}"#,
            r#"{"seq":0,"time":0,"data":1}"#,
            r#"{"type":"a","time":0,"data":1}"#,
            r#"{"type":"a","seq":0,"data":1}"#,
            r#"{"type":"a","seq":-0,"time":0,"data":1}"#,
            r#"{"type":"a","seq":0,"time":-0,"data":1}"#,
            r#"{"type":"a","seq":0,"time":9007199254740992,"data":1}"#,
            r#"{"type":"a","seq":0,"time":0,"data":1,"surfaceOp":["replace",0,0]}"#,
            r#"{"type":"a","seq":0,"time":0,"data":1,"surfaceOp":{"append":null}}"#,
            r#"{"type":"a","seq":0,"time":0,"data":1,"surfaceOp":{"op":{"replace":null},"start":0,"end":0}}"#,
            r#"{"type":"a","seq":0,"time":0,"data":1,"surfaceOp":{"op":"append","start":0,"end":0}}"#,
            r#"{"type":"a","seq":0,"time":0,"data":1,"surfaceOp":{"op":"replace","start":-1,"end":0}}"#,
            r#"{"type":"a","seq":5,"time":0,"data":1,"surfaceOp":"append","sourceEventSeqs":[-1]}"#,
            r#"{"type":"a","seq":5,"time":0,"data":1,"surfaceOp":"append","sourceEventSeqs":[0.5]}"#,
            r#"{"type":"a","seq":5,"time":0,"data":1,"surfaceOp":"append","sourceEventSeqs":[null]}"#,
            r#"{"type":"a","seq":5,"time":0,"data":1,"surfaceOp":"append","sourceEventSeqs":1}"#,
            r#"["a",0,0,1]"#,
            r#"["a",0,0,1,null,null,null]"#,
            "null",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_log_only_event_has_no_surface_field_on_the_wire() {
        let event = NewEvent::new(&TodoWrite { todos: vec![] }).at(Seq::ZERO, UnixMillis::EPOCH);
        assert_eq!(
            serde_json::to_string(&event).unwrap(),
            r#"{"type":"todo/write","seq":0,"time":0,"data":{"todos":[]}}"#
        );
        assert!(event.decode::<UserMessage>().is_none());
    }
}
