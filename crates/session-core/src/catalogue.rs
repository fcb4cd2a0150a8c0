//! The catalogue: what is known of each session without opening its log.
//!
//! Stores keep it in the transaction of the append that changes it, so it never lags behind.

use std::fmt;
use std::str::FromStr;

use crate::event::{EventData as _, MessageSource, SessionTitle, TurnEnd, TurnStart, UserMessage};
use crate::{Event, Header, Seq, SessionId, UnixMillis, is_transcript};

/// One session of the catalogue.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogueEntry {
    /// Its creation facts.
    pub header: Header,
    /// When a person last spoke in it, or else when it was created.
    pub updated_at: UnixMillis,
    /// Length of its log, which is the position of its next event.
    pub next_seq: Seq,
    /// Its last title.
    pub title: Option<String>,
    /// Whether no turn has started in it yet.
    pub is_blank: bool,
    /// Whether a turn is open: one is running, or a crash left it open.
    pub is_open: bool,
}

impl CatalogueEntry {
    /// The entry of a session without events.
    #[must_use]
    pub fn new(header: Header) -> Self {
        Self {
            updated_at: header.created_at,
            header,
            next_seq: Seq::ZERO,
            title: None,
            is_blank: true,
            is_open: false,
        }
    }

    /// Takes in what a batch changes.
    pub fn apply(&mut self, change: CatalogueChange) {
        if let Some(prompted_at) = change.prompted_at {
            self.updated_at = self.updated_at.max(prompted_at);
        }
        if let Some(title) = change.title {
            self.title = Some(title);
        }
        if let Some(is_open) = change.is_open {
            (self.is_open, self.is_blank) = (is_open, false);
        }
        self.next_seq = change.next_seq.unwrap_or(self.next_seq);
    }
}

/// What a batch of events changes in the catalogue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogueChange {
    /// Length of the log after the batch.
    pub next_seq: Option<Seq>,
    /// The last title in the batch.
    pub title: Option<String>,
    /// When a person spoke in the batch.
    pub prompted_at: Option<UnixMillis>,
    /// Whether a turn is open after the batch, where it opens or closes one.
    pub is_open: Option<bool>,
}

impl CatalogueChange {
    /// Takes in what a later batch of the same session changes.
    pub fn merge(&mut self, later: Self) {
        self.next_seq = later.next_seq.or(self.next_seq);
        self.title = later.title.or_else(|| self.title.take());
        self.prompted_at = self.prompted_at.max(later.prompted_at);
        self.is_open = later.is_open.or(self.is_open);
    }

    /// Reads the change off a batch.
    #[must_use]
    pub fn of(batch: &[Event]) -> Self {
        let mut change = Self {
            next_seq: batch.last().map(|event| event.seq().next()),
            ..Self::default()
        };
        for event in batch {
            match event.kind() {
                TurnStart::TYPE => change.is_open = Some(true),
                TurnEnd::TYPE => change.is_open = Some(false),
                SessionTitle::TYPE => {
                    change.title = event
                        .decode::<SessionTitle>()
                        .map(|title| title.title)
                        .or(change.title);
                }
                UserMessage::TYPE if is_transcript(event) => {
                    let by_person = event
                        .decode::<UserMessage>()
                        .is_some_and(|message| message.0.source == MessageSource::User);
                    if by_person {
                        change.prompted_at = change.prompted_at.max(Some(event.time_ms()));
                    }
                }
                _ => {}
            }
        }
        change
    }
}

/// Which sessions a listing shows. All conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// Only sessions that work in exactly this folder.
    pub cwd: Option<String>,
    /// Only sessions forked from or delegated by this one.
    pub parent: Option<SessionId>,
    /// Only sessions whose id begins so.
    pub id_prefix: Option<String>,
    /// Also sessions in which no turn has started.
    pub include_blank: bool,
}

impl ListFilter {
    /// Whether an entry passes.
    #[must_use]
    pub fn admits(&self, entry: &CatalogueEntry) -> bool {
        let Self {
            cwd,
            parent,
            id_prefix,
            include_blank,
        } = self;
        let header = &entry.header;
        cwd.as_ref()
            .is_none_or(|cwd| header.cwd.as_ref() == Some(cwd))
            && parent
                .as_ref()
                .is_none_or(|parent| header.parent_session.as_ref() == Some(parent))
            && id_prefix
                .as_ref()
                .is_none_or(|prefix| header.id.as_str().starts_with(prefix))
            && (*include_blank || !entry.is_blank)
    }
}

/// By what a listing is sorted. Newest first; equal times by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListOrder {
    /// When a person last spoke.
    #[default]
    Updated,
    /// When the session was created.
    Created,
}

/// What to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListQuery {
    /// Which sessions.
    pub filter: ListFilter,
    /// In which order.
    pub order: ListOrder,
    /// Where the page before this one ended.
    pub after: Option<Cursor>,
    /// How many at most.
    pub limit: u32,
}

impl Default for ListQuery {
    fn default() -> Self {
        Self {
            filter: ListFilter::default(),
            order: ListOrder::default(),
            after: None,
            limit: 50,
        }
    }
}

/// One page of a listing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The sessions.
    pub entries: Vec<CatalogueEntry>,
    /// Sessions that belong on this page, but whose header does not decode. Asked for one of them,
    /// the store says why.
    pub damaged: Vec<SessionId>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<Cursor>,
}

/// Where a page of a listing ended. Written and read as one opaque word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    order: ListOrder,
    time: UnixMillis,
    id: SessionId,
}

/// A word that is no cursor, or one of a listing in another order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor of this listing: {0:?}")]
pub struct InvalidCursor(pub String);

impl Cursor {
    /// The place of an entry in a listing of the given order.
    #[must_use]
    pub fn at(order: ListOrder, entry: &CatalogueEntry) -> Self {
        let time = sort_time(order, entry);
        Self {
            order,
            time,
            id: entry.header.id.clone(),
        }
    }

    /// A place between two entries: the time by which the listing is sorted, and an id.
    #[must_use]
    pub const fn new(order: ListOrder, time: UnixMillis, id: SessionId) -> Self {
        Self { order, time, id }
    }

    /// The order of the listing.
    #[must_use]
    pub const fn order(&self) -> ListOrder {
        self.order
    }

    /// The time of the entry before this place.
    #[must_use]
    pub const fn time(&self) -> UnixMillis {
        self.time
    }

    /// The id of the entry before this place.
    #[must_use]
    pub const fn id(&self) -> &SessionId {
        &self.id
    }

    /// Whether an entry comes after this place.
    #[must_use]
    pub fn precedes(&self, entry: &CatalogueEntry) -> bool {
        let time = sort_time(self.order, entry);
        (std::cmp::Reverse(time), &entry.header.id) > (std::cmp::Reverse(self.time), &self.id)
    }
}

pub(crate) const fn sort_time(order: ListOrder, entry: &CatalogueEntry) -> UnixMillis {
    match order {
        ListOrder::Updated => entry.updated_at,
        ListOrder::Created => entry.header.created_at,
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match self.order {
            ListOrder::Updated => 'u',
            ListOrder::Created => 'c',
        };
        write!(f, "{order}{}~{}", self.time.get(), self.id)
    }
}

impl FromStr for Cursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let invalid = || InvalidCursor(text.to_owned());
        let (order, rest) = match text.split_at_checked(1).ok_or_else(invalid)? {
            ("u", rest) => (ListOrder::Updated, rest),
            ("c", rest) => (ListOrder::Created, rest),
            _ => return Err(invalid()),
        };
        let (time, id) = rest.split_once('~').ok_or_else(invalid)?;
        let time = time.parse().map(UnixMillis::new).map_err(|_| invalid())?;
        if id.is_empty() {
            return Err(invalid());
        }
        Ok(Self {
            order,
            time,
            id: id.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_garbage_does_not() {
        let cursor = Cursor {
            order: ListOrder::Updated,
            time: UnixMillis::new(-5),
            id: "a~b".into(),
        };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in ["", "garbage", "u5", "u5~", "ux~a", "é"] {
            assert!(text.parse::<Cursor>().is_err(), "{text}");
        }
    }
}
