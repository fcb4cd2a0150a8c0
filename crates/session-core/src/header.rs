//! The header of a session: what is known of it before its first event.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::{Seq, SessionId, UnixMillis};

/// The format that this build writes and reads. It changes only with the structure of a log: the
/// header, the envelope, the meaning of core events, the set of surface types or operations.
pub const FORMAT_VERSION: u64 = 0;

/// The keys that a header line has of its own; a second one would make it unreadable.
const OWN_KEYS: [&str; 7] = [
    "type",
    "version",
    "id",
    "createdAt",
    "cwd",
    "parentSession",
    "seedLength",
];

/// Creation facts of a session. Never changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The format of the log.
    pub version: u64,
    /// The session.
    pub id: SessionId,
    /// When it was created; not before the epoch.
    pub created_at: UnixMillis,
    /// The folder that the agent works in; none means no workspace.
    #[serde(
        default,
        deserialize_with = "not_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub cwd: Option<String>,
    /// The session that it was forked from or that delegated to it; need not exist here.
    #[serde(
        default,
        deserialize_with = "not_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub parent_session: Option<SessionId>,
    /// How many events it inherited from its parent.
    #[serde(
        default,
        deserialize_with = "not_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub seed_length: Option<u64>,
    /// Anything else a writer noted, verbatim.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A log in a format that this build does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("log format {found}, this build reads format {FORMAT_VERSION}: {}", self.advice())]
pub struct UnsupportedFormat {
    /// The format of the log.
    pub found: u64,
}

impl UnsupportedFormat {
    const fn advice(self) -> &'static str {
        if self.found > FORMAT_VERSION {
            "it was written by a newer build, upgrade to read it"
        } else {
            "it was written by an older build, and there is no upgrade path"
        }
    }
}

/// A header that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// Another format.
    #[error(transparent)]
    Format(#[from] UnsupportedFormat),
    /// Not a header.
    #[error("malformed session header")]
    Malformed(#[from] serde_json::Error),
    /// A field has a value that it may not have.
    #[error("malformed session header: {reason}")]
    Invalid {
        /// Which, and why.
        reason: String,
    },
}

impl Header {
    /// A header of the present format.
    #[must_use]
    pub fn new(id: SessionId, created_at: UnixMillis) -> Self {
        Self {
            version: FORMAT_VERSION,
            id,
            created_at,
            cwd: None,
            parent_session: None,
            seed_length: None,
            extra: Map::new(),
        }
    }

    /// Reads a header from JSON, be it by itself or a header line. The format is looked at before anything else, so that a log of
    /// another format is named as such.
    ///
    /// # Errors
    ///
    /// Returns [`HeaderError`].
    pub fn from_json(text: &str) -> Result<Self, HeaderError> {
        #[derive(Deserialize)]
        struct Format {
            version: u64,
        }
        let Format { version: found } = serde_json::from_str(text)?;
        if found != FORMAT_VERSION {
            return Err(UnsupportedFormat { found }.into());
        }
        let mut header: Self = serde_json::from_str(text)?;
        // A header line says what it is; that is no field of the header.
        header.extra.remove("type");
        header.check()?;
        header.check_kept(text)?;
        Ok(header)
    }

    /// Whether every integer of the extra fields in `text` was read to its last digit.
    fn check_kept(&self, text: &str) -> Result<(), HeaderError> {
        let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
        for (key, value) in &self.extra {
            if !fields.get(key).is_some_and(|given| is_kept(given, value)) {
                let reason = format!("{key:?} holds an integer of more than 64 bits");
                return Err(HeaderError::Invalid { reason });
            }
        }
        Ok(())
    }

    /// Checks the values of the fields.
    ///
    /// # Errors
    ///
    /// Returns the first field that is wrong.
    pub fn check(&self) -> Result<(), HeaderError> {
        let invalid = |reason: &str| {
            Err(HeaderError::Invalid {
                reason: reason.into(),
            })
        };
        if self.version != FORMAT_VERSION {
            return Err(UnsupportedFormat {
                found: self.version,
            }
            .into());
        }
        if self.id.as_str().is_empty() {
            return invalid("id must be a non-empty string");
        }
        if self.created_at < UnixMillis::EPOCH || self.created_at > UnixMillis::MAX {
            return invalid("createdAt must lie between 1970 and 2^53 - 1 ms");
        }
        if self.cwd.as_deref() == Some("") {
            return invalid("cwd must be a path or absent");
        }
        if self.seed_length.is_some_and(|length| !is_exact(length)) {
            return invalid("seedLength is beyond 2^53 - 1");
        }
        if let Some(key) = self
            .extra
            .keys()
            .find(|key| OWN_KEYS.contains(&key.as_str()))
        {
            return invalid(&format!("{key} may not be given twice"));
        }
        match self.extra.get("origin") {
            None => {}
            Some(Value::String(origin)) if origin == "subagent" => {}
            Some(_) => return invalid("origin may only be \"subagent\""),
        }
        match self.extra.get("delegationDepth") {
            None => {}
            Some(depth) if depth.as_u64().is_some_and(is_exact) => {}
            Some(_) => return invalid("delegationDepth must be a whole number"),
        }
        match self.extra.get("agentPreset") {
            None | Some(Value::String(_)) => {}
            Some(_) => return invalid("agentPreset must be a string"),
        }
        Ok(())
    }
}

/// Whether every JSON reader can tell the number from its neighbours.
const fn is_exact(number: u64) -> bool {
    number <= Seq::MAX.get()
}

/// A key that is there holds a value: null would read as absent, and not be written back.
fn not_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Whether no integer in `given` was rounded to a float when it was read as `value`.
fn is_kept(given: &RawValue, value: &Value) -> bool {
    let text = given.get();
    match value {
        Value::Number(number) => !number.is_f64() || text.contains(['.', 'e', 'E']),
        Value::Array(values) => serde_json::from_str::<Vec<&RawValue>>(text)
            .is_ok_and(|given| given.iter().zip(values).all(|(a, b)| is_kept(a, b))),
        Value::Object(values) => serde_json::from_str::<BTreeMap<String, &RawValue>>(text)
            .is_ok_and(|given| {
                let mut pairs = given.iter().map(|(key, given)| (given, values.get(key)));
                pairs.all(|(given, value)| value.is_some_and(|value| is_kept(given, value)))
            }),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_keeps_the_fields_it_does_not_know() {
        let text = r#"{"version":0,"id":"a","createdAt":5,"cwd":"/x","origin":"subagent","x":[1]}"#;
        let header = Header::from_json(text).unwrap();
        assert_eq!(serde_json::to_string(&header).unwrap(), text);
    }

    #[test]
    fn a_header_may_name_a_folder_of_another_system_and_a_parent_that_is_not_here() {
        let text = r#"{"version":0,"id":"a","createdAt":0,"cwd":"C:\\work","parentSession":"b","seedLength":0,"delegationDepth":0,"agentPreset":"x"}"#;
        let header = Header::from_json(text).unwrap();
        assert_eq!(serde_json::to_string(&header).unwrap(), text);
    }

    #[test]
    fn a_log_of_another_format_is_refused_with_the_direction() {
        let newer = Header::from_json(r#"{"version":7,"nonsense":true}"#)
            .unwrap_err()
            .to_string();
        assert_eq!(
            newer,
            "log format 7, this build reads format 0: it was written by a newer build, upgrade to \
             read it"
        );
    }

    #[test]
    fn a_header_keeps_every_number_and_refuses_an_integer_that_it_would_round() {
        let read = |x: &str| {
            Header::from_json(&format!(
                r#"{{"version":0,"id":"a","createdAt":5,"x":[{{"y":{x}}}]}}"#
            ))
        };
        for kept in [
            "18446744073709551615",
            "-9223372036854775808",
            "1.0",
            "0.1",
            "1.7976931348623157e+308",
            "1790000000000.123",
            "9.5367431640625e-7",
            // The quick way of reading a float is off by one bit here.
            "413234230265.63403",
        ] {
            let again = serde_json::to_string(&read(kept).unwrap()).unwrap();
            assert!(again.contains(&format!(":{kept}}}")), "{kept}: {again}");
        }
        for lost in [
            "18446744073709551616",
            "-9223372036854775809",
            "12345678901234567890123",
        ] {
            let refused = read(lost).unwrap_err().to_string();
            assert!(refused.contains("\"x\""), "{refused}");
        }
    }

    #[test]
    fn an_extra_field_with_the_name_of_a_known_one_is_refused() {
        for key in OWN_KEYS {
            let mut header = Header::new("a".into(), UnixMillis::EPOCH);
            header.extra.insert(key.into(), "b".into());
            assert!(header.check().is_err(), "{key}");
        }
    }

    #[test]
    fn a_header_with_a_wrong_value_is_refused() {
        for text in [
            "null",
            "[]",
            "[0]",
            r#"[0,"a",5]"#,
            r#"{"id":"a","createdAt":5}"#,
            r#"{"version":-1,"id":"a","createdAt":5}"#,
            r#"{"version":0,"createdAt":5}"#,
            r#"{"version":0,"id":5,"createdAt":5}"#,
            r#"{"version":0,"id":"a"}"#,
            r#"{"version":0,"id":"a","id":"a","createdAt":5}"#,
            r#"{"version":0,"id":"a","createdAt":-0}"#,
            r#"{"version":0,"id":"a","createdAt":9007199254740992}"#,
            r#"{"version":0,"id":"a","createdAt":1,"cwd":""}"#,
            r#"{"version":0,"id":"a","createdAt":1,"cwd":null}"#,
            r#"{"version":0,"id":"a","createdAt":1,"parentSession":null}"#,
            r#"{"version":0,"id":"a","createdAt":1,"parentSession":1}"#,
            r#"{"version":0,"id":"a","createdAt":1,"seedLength":null}"#,
            r#"{"version":0,"id":"a","createdAt":1,"seedLength":-1}"#,
            r#"{"version":0,"id":"a","createdAt":1,"seedLength":1.5}"#,
            r#"{"version":0,"id":"a","createdAt":1,"seedLength":9007199254740992}"#,
            r#"{"version":0,"id":"a","createdAt":1,"origin":null}"#,
            r#"{"version":0,"id":"a","createdAt":1,"delegationDepth":1.0}"#,
            r#"{"version":0,"id":"a","createdAt":1,"delegationDepth":9007199254740992}"#,
            r#"{"version":0,"id":"a","createdAt":1,"agentPreset":1}"#,
            r#"{"version":0,"id":"","createdAt":5}"#,
            r#"{"version":0,"id":"a","createdAt":-1}"#,
            r#"{"version":0,"id":"a","createdAt":0.5}"#,
            r#"{"version":0,"id":"a","createdAt":1,"origin":"me"}"#,
            r#"{"version":0,"id":"a","createdAt":1,"delegationDepth":-1}"#,
            r#"{"version":"0","id":"a","createdAt":1}"#,
        ] {
            assert!(Header::from_json(text).is_err(), "{text}");
        }
    }
}
