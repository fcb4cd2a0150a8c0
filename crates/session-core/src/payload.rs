//! JSON that is kept to the letter.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// One JSON value as its text, without white space between tokens.
///
/// The text is what was appended and what is read back: integers of any length, the spelling of a
/// float, repeated keys and escapes of lone surrogates all survive, and nesting may be deeper than
/// a recursive reader allows. Read parts of it with [`Payload::decode`].
#[derive(Clone)]
pub struct Payload(Arc<RawValue>);

/// A text that is not one JSON value.
#[derive(Debug, thiserror::Error)]
#[error("not a JSON value")]
pub struct InvalidJson(#[from] serde_json::Error);

impl Payload {
    /// Checks that `text` is one JSON value and drops the white space between its tokens.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidJson`] with the place of the first fault.
    pub fn from_text(text: &str) -> Result<Self, InvalidJson> {
        let raw = RawValue::from_string(without_whitespace(text))?;
        // The text was re-spaced before it was checked, so check the original for two tokens that
        // only white space kept apart (`1 2`).
        let _: &RawValue = serde_json::from_str(text)?;
        Ok(Self(raw.into()))
    }

    /// The JSON of a value.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidJson`] when the value has no JSON form, such as a map with keys that are
    /// not strings.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, InvalidJson> {
        Ok(Self(serde_json::value::to_raw_value(value)?.into()))
    }

    /// The JSON text; it has no raw newline.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Reads the value as a `T`.
    ///
    /// # Errors
    ///
    /// Returns the reader's own account of what did not fit.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// Whether both hold the same JSON value, whatever their spelling.
    #[must_use]
    pub fn same_value(&self, other: &Self) -> bool {
        if self == other {
            return true;
        }
        let read = |payload: &Self| payload.decode::<serde_json::Value>().ok();
        matches!((read(self), read(other)), (Some(a), Some(b)) if a == b)
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Payload {}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        if raw.get().contains(['\n', ' ', '\t', '\r']) {
            let spaceless = without_whitespace(raw.get());
            return RawValue::from_string(spaceless)
                .map(|raw| Self(raw.into()))
                .map_err(serde::de::Error::custom);
        }
        Ok(Self(raw.into()))
    }
}

fn without_whitespace(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut escaped) = (false, false);
    for c in text.chars() {
        if in_string {
            out.push(c);
            (in_string, escaped) = match c {
                '\\' if !escaped => (true, true),
                '"' if !escaped => (false, false),
                _ => (true, false),
            };
        } else if !matches!(c, ' ' | '\t' | '\n' | '\r') {
            out.push(c);
            in_string = c == '"';
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::Payload;

    #[test]
    fn a_payload_keeps_what_a_number_type_would_lose() {
        let text = r#"{"big":123456789012345678901234567890,"f":4.435375000000022,"z":-0,"a":1,"a":2,"s":"\ud800"}"#;
        assert_eq!(Payload::from_text(text).unwrap().as_str(), text);
        assert_eq!(
            serde_json::from_str::<Payload>(text).unwrap().as_str(),
            text
        );
    }

    #[test]
    fn white_space_between_tokens_is_dropped_and_inside_strings_kept() {
        let payload = Payload::from_text("{ \"a b\" :\n [1, \"\\\" x\"] }").unwrap();
        assert_eq!(payload.as_str(), r#"{"a b":[1,"\" x"]}"#);
    }

    #[test]
    fn two_values_in_one_text_are_refused() {
        assert!(Payload::from_text("1 2").is_err());
        assert!(Payload::from_text("").is_err());
    }

    #[test]
    fn nesting_deeper_than_a_stack_is_kept() {
        let text = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
        assert_eq!(Payload::from_text(&text).unwrap().as_str(), text);
    }

    #[test]
    fn equal_values_in_other_spelling_are_the_same_value() {
        let (a, b) = (r#"{"a":1,"b":[2]}"#, r#"{"b":[2],"a":1}"#);
        assert!(
            Payload::from_text(a)
                .unwrap()
                .same_value(&Payload::from_text(b).unwrap())
        );
    }
}
