//! Positions in a log and instants of the wall clock.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, de};

/// Position of an event in its session: 0, 1, 2, … without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(transparent)]
pub struct Seq(u64);

impl Seq {
    /// The first position of every log.
    pub const ZERO: Self = Self(0);
    /// The last position that every JSON reader can tell apart from its neighbours (2^53 - 1).
    pub const MAX: Self = Self((1 << 53) - 1);

    /// Takes a position; `None` beyond [`Seq::MAX`].
    #[must_use]
    pub const fn new(value: u64) -> Option<Self> {
        if value <= Self::MAX.0 {
            Some(Self(value))
        } else {
            None
        }
    }

    /// The position as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The position after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The position before this one; `None` at the start of the log.
    #[must_use]
    pub const fn previous(self) -> Option<Self> {
        match self.0 {
            0 => None,
            n => Some(Self(n - 1)),
        }
    }

    /// The position `n` events later.
    #[must_use]
    pub const fn plus(self, n: u64) -> Self {
        Self(self.0.saturating_add(n))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl<'de> Deserialize<'de> for Seq {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = u64::deserialize(deserializer)?;
        Self::new(value).ok_or_else(|| de::Error::custom("a position is beyond 2^53 - 1"))
    }
}

impl From<u32> for Seq {
    fn from(value: u32) -> Self {
        Self(value.into())
    }
}

/// An instant as logs write it: milliseconds since the Unix epoch. May lie before it, and may run
/// backwards from one event to the next, since it is what the wall clock said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(transparent)]
pub struct UnixMillis(i64);

impl UnixMillis {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);
    /// The first instant that a log may hold: every JSON reader can tell it from its neighbours.
    pub const MIN: Self = Self(1 - (1 << 53));
    /// The last instant that a log may hold (2^53 - 1).
    pub const MAX: Self = Self((1 << 53) - 1);

    /// Takes milliseconds since the epoch.
    #[must_use]
    pub const fn new(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Whether a log may hold it.
    #[must_use]
    pub const fn is_exact(self) -> bool {
        Self::MIN.0 <= self.0 && self.0 <= Self::MAX.0
    }

    /// The instant as a date. Instants beyond the calendar of `chrono` (some 260,000 years away)
    /// become its last or first one.
    #[must_use]
    pub fn datetime(self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.0).unwrap_or(if self.0 < 0 {
            DateTime::<Utc>::MIN_UTC
        } else {
            DateTime::<Utc>::MAX_UTC
        })
    }
}

impl<'de> Deserialize<'de> for UnixMillis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let instant = Self(i64::deserialize(deserializer)?);
        if instant.is_exact() {
            Ok(instant)
        } else {
            Err(de::Error::custom("an instant is beyond 2^53 - 1"))
        }
    }
}

impl From<DateTime<Utc>> for UnixMillis {
    fn from(instant: DateTime<Utc>) -> Self {
        Self(instant.timestamp_millis())
    }
}

impl fmt::Display for UnixMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}",
            self.datetime()
                .to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_beyond_the_last_is_refused_wherever_it_is_read() {
        assert_eq!(
            serde_json::from_str::<Seq>("9007199254740991").unwrap(),
            Seq::MAX
        );
        for text in ["9007199254740992", "18446744073709551615", "-1", "1.0"] {
            assert!(serde_json::from_str::<Seq>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_instant_beyond_the_last_is_refused_wherever_it_is_read() {
        for instant in [UnixMillis::MIN, UnixMillis::MAX] {
            let text = serde_json::to_string(&instant).unwrap();
            assert_eq!(serde_json::from_str::<UnixMillis>(&text).unwrap(), instant);
        }
        for text in ["9007199254740992", "-9007199254740992", "0.5", "1e3", "-0"] {
            assert!(serde_json::from_str::<UnixMillis>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_instant_beyond_the_calendar_still_has_a_date() {
        for millis in [i64::MIN, -1, i64::MAX] {
            assert!(!UnixMillis::new(millis).to_string().is_empty());
        }
    }
}
