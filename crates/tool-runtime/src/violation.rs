//! What is wrong with arguments, in words that a model can act on.

use std::fmt;

use serde_json::Value;

/// How many violations, and how many names inside one of them, a message lists.
const LISTED: usize = 5;

/// What a model sent is quoted up to this many characters.
const QUOTED: usize = 80;

/// One place in the arguments of a call that does not fit: where, what was expected, and what is
/// there.
///
/// Longer values are described rather than quoted, so a message stays short whatever was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    path: String,
    problem: String,
}

impl Violation {
    /// A violation in words of one's own.
    #[must_use]
    pub fn new(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            problem: problem.into(),
        }
    }

    /// A value that is of none of these types, named as in JSON Schema.
    ///
    /// A string where an array or an object belongs is most often JSON that was encoded twice; the
    /// message then says how to send it.
    #[must_use]
    pub fn wrong_type(path: impl Into<String>, types: &[&str], found: &Value) -> Self {
        let expected: Vec<_> = types.iter().map(|name| with_article(name)).collect();
        let expected = expected.join(" or ");
        let mut problem = format!("expected {expected}, got {}", describe(found));
        let nested = types
            .iter()
            .find(|name| matches!(**name, "array" | "object"));
        if let (Value::String(_), Some(nested)) = (found, nested) {
            problem += &format!(" (send the {nested} itself, not text that holds it)");
        }
        Self::new(path, problem)
    }

    /// A value that is none of the allowed ones.
    #[must_use]
    pub fn not_one_of(path: impl Into<String>, allowed: &[Value], found: &Value) -> Self {
        Self::expected(path, &one_of(allowed), &describe(found))
    }

    /// A key that must be there; `path` is where it belongs.
    #[must_use]
    pub fn missing(path: impl Into<String>, expected: &str) -> Self {
        Self::new(path, format!("missing, expected {expected}"))
    }

    /// A key that must be there and have one of these values.
    #[must_use]
    pub fn missing_one_of(path: impl Into<String>, allowed: &[Value]) -> Self {
        Self::missing(path, &one_of(allowed))
    }

    /// Keys of an object that has no place for them.
    #[must_use]
    pub fn unknown_keys(path: impl Into<String>, unknown: &[&str], known: &[&str]) -> Self {
        let word = if unknown.len() == 1 { "key" } else { "keys" };
        let mut problem = format!("unknown {word} {}", list(unknown));
        if !known.is_empty() {
            problem += &format!(", expected only {}", list(known));
        }
        Self::new(path, problem)
    }

    /// A value beyond a limit, as in `expected at most 10 items, got 11`. The unit is singular.
    #[must_use]
    pub fn too_much(path: impl Into<String>, limit: u64, unit: &str, found: u64) -> Self {
        let plural = plural(limit);
        Self::expected(
            path,
            &format!("at most {limit} {unit}{plural}"),
            &found.to_string(),
        )
    }

    /// A value short of a limit, as in `expected at least 1 item, got 0`. The unit is singular.
    #[must_use]
    pub fn too_little(path: impl Into<String>, limit: u64, unit: &str, found: u64) -> Self {
        let plural = plural(limit);
        Self::expected(
            path,
            &format!("at least {limit} {unit}{plural}"),
            &found.to_string(),
        )
    }

    fn expected(path: impl Into<String>, expected: &str, found: &str) -> Self {
        Self::new(path, format!("expected {expected}, got {found}"))
    }

    /// Where, as in `arguments.todos[0].status`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What was expected and what is there.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}

/// All that is wrong with the arguments of one call. Displays the first few and counts the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violations(Vec<Violation>);

impl Violations {
    /// The violations of a check; `Ok` when there are none.
    ///
    /// # Errors
    ///
    /// Returns them.
    pub fn check(found: Vec<Violation>) -> Result<(), Self> {
        if found.is_empty() {
            Ok(())
        } else {
            Err(Self(found))
        }
    }

    /// Each of them, in the order in which they were found.
    pub fn iter(&self) -> impl Iterator<Item = &Violation> {
        self.0.iter()
    }
}

impl From<Violation> for Violations {
    fn from(violation: Violation) -> Self {
        Self(vec![violation])
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, violation) in self.0.iter().take(LISTED).enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{violation}")?;
        }
        match self.0.len().saturating_sub(LISTED) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// `one of "a", "b"`, or the value itself when there is only one.
pub(crate) fn one_of(allowed: &[Value]) -> String {
    match allowed {
        [only] => describe(only),
        _ => {
            let allowed: Vec<_> = allowed.iter().map(describe).collect();
            format!("one of {}", allowed.join(", "))
        }
    }
}

pub(crate) fn with_article(type_name: &str) -> String {
    let article = match type_name {
        "array" | "object" | "integer" => "an ",
        "null" => "",
        _ => "a ",
    };
    format!("{article}{type_name}")
}

/// A name or text as a JSON string, cut where it is long.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted: String = text.chars().take(QUOTED).collect();
    if quoted.len() < text.len() {
        quoted.push('…');
    }
    Value::String(quoted).to_string()
}

const fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => match text.chars().count() {
            long if long > QUOTED => format!("a string of {long} characters"),
            _ => quote(text),
        },
        Value::Array(_) => with_article("array"),
        Value::Object(_) => with_article("object"),
    }
}

fn list(names: &[&str]) -> String {
    let listed: Vec<_> = names.iter().take(LISTED).map(|name| quote(name)).collect();
    let tail = match names.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    listed.join(", ") + &tail
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_says_where_what_was_expected_and_what_is_there() {
        let violations = [
            Violation::wrong_type("arguments.n", &["integer", "null"], &json!(1.5)),
            Violation::not_one_of("arguments.unit", &[json!("mm"), json!("cm")], &json!("ell")),
            Violation::not_one_of("arguments.v", &[json!(2)], &json!([])),
            Violation::missing("arguments.path", "a string"),
            Violation::unknown_keys("arguments", &["x"], &["path", "unit"]),
            Violation::unknown_keys("arguments", &["x", "y"], &[]),
            Violation::too_much("arguments.list", 10, "item", 11),
            Violation::too_little("arguments.list", 1, "item", 0),
        ];
        let texts: Vec<_> = violations.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "arguments.n: expected an integer or null, got 1.5",
                r#"arguments.unit: expected one of "mm", "cm", got "ell""#,
                "arguments.v: expected 2, got an array",
                "arguments.path: missing, expected a string",
                r#"arguments: unknown key "x", expected only "path", "unit""#,
                r#"arguments: unknown keys "x", "y""#,
                "arguments.list: expected at most 10 items, got 11",
                "arguments.list: expected at least 1 item, got 0",
            ]
        );
    }

    #[test]
    fn text_where_structure_belongs_is_answered_with_how_to_send_it() {
        for name in ["array", "object"] {
            let violation = Violation::wrong_type("arguments.x", &[name], &json!("[1]"));
            let told = format!(
                r#"expected an {name}, got "[1]" (send the {name} itself, not text that holds it)"#
            );
            assert_eq!(violation.problem(), told);
        }
        let violation = Violation::wrong_type("arguments.x", &["integer"], &json!("1"));
        assert_eq!(violation.problem(), r#"expected an integer, got "1""#);
    }

    #[test]
    fn a_message_stays_short_whatever_was_sent() {
        let long = "x".repeat(1_000_000);
        let keys = vec![long.as_str(); 1000];
        let found: Vec<_> = (0..1000)
            .flat_map(|_| {
                [
                    Violation::wrong_type("arguments.x", &["array"], &json!(long)),
                    Violation::unknown_keys("arguments", &keys, &["a"]),
                ]
            })
            .collect();
        let text = Violations::check(found).unwrap_err().to_string();
        assert!(text.len() < 2_000, "{}", text.len());
        assert!(text.contains("got a string of 1000000 characters (send the array"));
        assert!(text.contains("…\" and 995 more, expected only \"a\""));
        assert!(text.ends_with("; and 1995 more"));
    }
}
