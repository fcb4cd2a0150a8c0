//! Heads that a caller asks for.

use sqlx::SqlitePool;

use super::head;
use super::row::backend;
use crate::store::ReadError;
use crate::{ChainHash, Seq, SessionId};

/// The head of the first `until` events of a session.
pub(super) async fn at(
    readers: &SqlitePool,
    session: &SessionId,
    until: Seq,
) -> Result<ChainHash, ReadError> {
    // One cut, so that what is measured is what is read.
    let mut cut = readers.begin().await.map_err(backend)?;
    let end = head::load(&mut cut, session).await.map_err(backend)?;
    let end = end.ok_or_else(|| ReadError::NotFound {
        session: session.clone(),
    })?;
    if until > end.next {
        return Err(ReadError::Beyond {
            session: session.clone(),
            until,
            length: end.next,
        });
    }
    let part = head::at(&mut cut, end.key, until).await.map_err(backend)?;
    if part.is_whole {
        return Ok(part.head.chain);
    }
    Err(ReadError::Damaged {
        session: session.clone(),
        seq: until.previous().unwrap_or(Seq::ZERO),
        reason: "what the hash chain goes over is lost".into(),
    })
}
