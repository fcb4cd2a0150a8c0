//! JSON that is kept to the letter.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use memchr::memchr2;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};
use serde_json::value::RawValue;

/// What JSON allows between tokens.
const WHITE_SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// One JSON value as its text, without white space between tokens.
///
/// The text is what was appended and what is read back: integers of any length, the spelling of a
/// float, repeated keys and escapes of lone surrogates all survive, and nesting may be deeper than
/// a recursive reader allows. Read parts of it with [`Payload::decode`].
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(Arc<str>);

/// A text that is not one JSON value.
#[derive(Debug, thiserror::Error)]
#[error("not a JSON value")]
pub struct InvalidJson(#[from] pub(crate) serde_json::Error);

impl Payload {
    /// Checks that `text` is one JSON value and drops the white space between its tokens.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidJson`] with the place of the first fault.
    pub fn from_text(text: &str) -> Result<Self, InvalidJson> {
        // Checked before it is re-spaced: white space may be all that keeps two tokens apart.
        let raw: &RawValue = serde_json::from_str(text)?;
        Ok(Self::compact(raw.get()))
    }

    /// The JSON of a value.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidJson`] when the value has no JSON form, such as a map with keys that are
    /// not strings.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, InvalidJson> {
        Ok(Self::compact(&serde_json::to_string(value)?))
    }

    /// Takes a text that was a payload before and has been kept intact since. Reading it again for
    /// faults would cost as much as decoding it.
    #[cfg(feature = "record")]
    pub(crate) fn kept(text: &str) -> Self {
        Self(text.into())
    }

    /// Takes a value that has been checked, and drops the white space between its tokens.
    fn compact(text: &str) -> Self {
        // Most texts have white space in their strings alone, and are taken as they are.
        if has_whitespace_between_tokens(text) {
            Self(without_whitespace(text).into())
        } else {
            Self(text.into())
        }
    }

    /// The JSON text; it has no raw newline.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads the value as a `T`.
    ///
    /// # Errors
    ///
    /// Returns the reader's own account of what did not fit.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// Whether both hold the same JSON value: the order of keys, the escapes in strings and the
    /// spelling of floats do not count, every digit of an integer does. Nesting beyond
    /// 128 levels, and strings with lone surrogates, are compared to the letter.
    #[must_use]
    pub fn same_value(&self, other: &Self) -> bool {
        let both = self.decode::<Box<RawValue>>().ok().zip(other.decode().ok());
        self == other || both.is_some_and(|(a, b): (_, Box<RawValue>)| same_value(&a, &b, DEPTH))
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(self.as_str()).map_err(ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self::compact(raw.get()))
    }
}

/// How deep [`same_value`] looks into what is spelt differently.
const DEPTH: u32 = 128;

fn same_value(a: &RawValue, b: &RawValue, depth: u32) -> bool {
    fn both<'a, T: Deserialize<'a>>(a: &'a RawValue, b: &'a RawValue) -> Option<(T, T)> {
        let read = |raw: &'a RawValue| serde_json::from_str(raw.get()).ok();
        read(a).zip(read(b))
    }
    if a.get() == b.get() {
        return true;
    }
    let Some(depth) = depth.checked_sub(1) else {
        return false;
    };
    match a.get().as_bytes().first() {
        Some(b'{') => both::<BTreeMap<String, &RawValue>>(a, b).is_some_and(|(a, b)| {
            a.len() == b.len()
                && a.iter()
                    .zip(&b)
                    .all(|((ka, a), (kb, b))| ka == kb && same_value(a, b, depth))
        }),
        Some(b'[') => both::<Vec<&RawValue>>(a, b).is_some_and(|(a, b)| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b, depth))
        }),
        Some(b'"') => both::<String>(a, b).is_some_and(|(a, b)| a == b),
        Some(b'-' | b'0'..=b'9') => {
            let is_integer = |raw: &RawValue| !raw.get().contains(['.', 'e', 'E']);
            !(is_integer(a) && is_integer(b)) && both::<f64>(a, b).is_some_and(|(a, b)| a == b)
        }
        _ => false,
    }
}

fn has_whitespace_between_tokens(text: &str) -> bool {
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte == b'"' {
            // Strings are most of a payload, so they are passed over quickly.
            while let Some(at) = memchr2(b'"', b'\\', rest) {
                let is_end = rest[at] == b'"';
                rest = rest
                    .get(at + if is_end { 1 } else { 2 }..)
                    .unwrap_or_default();
                if is_end {
                    break;
                }
            }
        } else if WHITE_SPACE.contains(&char::from(*byte)) {
            return true;
        }
    }
    false
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
        } else if !WHITE_SPACE.contains(&c) {
            out.push(c);
            in_string = c == '"';
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Payload, has_whitespace_between_tokens, without_whitespace};

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
    fn white_space_is_seen_exactly_where_it_would_be_dropped() {
        for text in [
            r#"{"a b":[1,"\" x","é\\"],"c":"\\\" "}"#,
            r#"{"a\\" :1}"#,
            "[\"a\",\n1]",
            " 1",
            "1\t",
            r#""\" ""#,
            r#""""#,
            "[]",
        ] {
            let is_dropped = without_whitespace(text) != text;
            assert_eq!(has_whitespace_between_tokens(text), is_dropped, "{text}");
        }
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
    fn a_payload_of_a_value_has_no_white_space_either() {
        let spaced: Box<serde_json::value::RawValue> =
            serde_json::from_str("{\n \"a\": 1}").unwrap();
        assert_eq!(Payload::of(&spaced).unwrap().as_str(), r#"{"a":1}"#);
    }

    fn same(a: &str, b: &str) -> bool {
        let (a, b) = (
            Payload::from_text(a).unwrap(),
            Payload::from_text(b).unwrap(),
        );
        assert_eq!(a.same_value(&b), b.same_value(&a));
        a.same_value(&b)
    }

    #[test]
    fn equal_values_in_other_spelling_are_the_same_value() {
        for (a, b) in [
            (r#"{"a":1,"b":[2]}"#, r#"{"b":[2],"a":1}"#),
            (r#"["\u0061"]"#, r#"["a"]"#),
            ("1.0", "1"),
            ("1e2", "100.0"),
            (r#"{"a":{"b":1.50}}"#, r#"{"a":{"b":1.5}}"#),
        ] {
            assert!(same(a, b), "{a} {b}");
        }
    }

    #[test]
    fn different_values_are_not_the_same_value() {
        for (a, b) in [
            ("12345678901234567890123", "12345678901234567890124"),
            ("9007199254740993", "9007199254740992"),
            (r#"{"a":1}"#, r#"{"a":1,"b":null}"#),
            (r#"{"a":1}"#, r#"{"b":1}"#),
            ("[1,2]", "[2,1]"),
            ("[1]", "[1,1]"),
            ("null", "false"),
            ("1", "\"1\""),
            ("\"a\"", "\"b\""),
        ] {
            assert!(!same(a, b), "{a} {b}");
        }
    }

    #[test]
    fn comparing_what_is_nested_deeper_than_a_stack_ends() {
        let deep = |leaf: &str| format!("{}{leaf}{}", "[".repeat(20_000), "]".repeat(20_000));
        assert!(same(&deep("1"), &deep("1")));
        assert!(!same(&deep("1"), &deep("2")));
    }
}
