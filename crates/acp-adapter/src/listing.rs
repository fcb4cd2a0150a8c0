//! Pages of the session list.

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{ListSessionsRequest, ListSessionsResponse};
use session_core::{Cursor, ListFilter, ListOrder, ListQuery, Sessions};

use crate::{fault, from_acp, to_acp};

/// Sessions on a page.
const PAGE: usize = 50;

/// What to list.
///
/// # Errors
///
/// Returns an error for a relative folder and for a word that is no cursor.
pub(crate) fn query(request: &ListSessionsRequest) -> Result<ListQuery, Error> {
    let cwd = request.cwd.as_deref().map(from_acp::cwd).transpose();
    let after = request.cursor.as_deref().map(str::parse::<Cursor>);
    let filter = ListFilter {
        cwd: cwd.map_err(fault::invalid)?,
        ..ListFilter::default()
    };
    let after = after.transpose().map_err(fault::invalid)?;
    Ok(ListQuery {
        filter,
        after,
        ..ListQuery::default()
    })
}

/// One page, newest first, full unless it is the last.
pub(crate) async fn page(
    sessions: &Sessions,
    mut query: ListQuery,
) -> Result<ListSessionsResponse, Error> {
    let mut listed = Vec::new();
    loop {
        let page = sessions.store().list(&query).await;
        let page = page.map_err(|error| match error {
            session_core::store::ReadError::Cursor(invalid) => fault::invalid(invalid),
            error => fault::read(&error),
        })?;
        for session in &page.damaged {
            tracing::warn!(%session, "left out of a listing, since its header does not decode");
        }
        for (place, entry) in page.entries.iter().enumerate() {
            // A session without a folder has no place in the protocol.
            listed.extend(to_acp::session_info(entry));
            let more = place + 1 < page.entries.len() || page.next.is_some();
            if listed.len() == PAGE && more {
                let next = Cursor::at(ListOrder::default(), entry).to_string();
                return Ok(ListSessionsResponse::new(listed).next_cursor(next));
            }
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(ListSessionsResponse::new(listed)),
        }
    }
}
