//! Opening sessions for a client: new ones, and old ones with or without their history.

use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    LoadSessionRequest, NewSessionRequest, ResumeSessionRequest, SessionUpdate,
};
use agent_client_protocol::{Error, RequestCancellation};
use futures::StreamExt as _;
use session_core::event::{Todo, TodoWrite, TurnStart};
use session_core::store::{ReadError, ReadRange};
use session_core::{LogState, NewSession, Seq, Session, SessionId};
use tokio_util::sync::CancellationToken;

use crate::connection::{Attached, Connection, Occupancy, Work};
use crate::outbox::Outbox;
use crate::{PromptCancel, fault, from_acp};

/// Checks the parameters of a new session.
pub(crate) fn new_session(request: &NewSessionRequest) -> Result<NewSession, Error> {
    let cwd = from_acp::cwd(&request.cwd).map_err(fault::invalid)?;
    from_acp::no_more_directories(&request.additional_directories).map_err(fault::invalid)?;
    ignore_servers(request.mcp_servers.len());
    Ok(NewSession {
        cwd: Some(cwd),
        ..NewSession::default()
    })
}

/// Loads a session: tells the client all of it. The session is busy until the occupancy ends.
pub(crate) async fn load(
    connection: &Arc<Connection>,
    request: LoadSessionRequest,
    asked: &RequestCancellation,
    outbox: &Outbox,
) -> Result<Occupancy, Error> {
    ignore_servers(request.mcp_servers.len());
    let id = SessionId::new(Arc::clone(&request.session_id.0));
    from_acp::no_more_directories(&request.additional_directories).map_err(fault::invalid)?;
    check_cwd(connection, &id, &request.cwd).await?;
    let (attached, is_new) = connection.open(&id).await?;
    let told = async {
        let occupancy =
            attached.occupy(Work::Attach, PromptCancel::of(&CancellationToken::new()))?;
        let stop = || occupancy.cancel.is_cancelled() || asked.is_cancelled();
        let told = replay(&attached, stop, outbox).await;
        if told.is_err() {
            // Half a history says nothing of what comes next.
            *attached.projector.lock().await = connection.projector();
        }
        told.map(|()| occupancy)
    };
    let told = told.await;
    if told.is_err() && is_new {
        connection.detach(&attached).await;
    }
    told
}

/// Resumes a session: tells the client nothing but the standing plan, which comes back for after
/// the answer. The session is busy until the occupancy ends.
pub(crate) async fn resume(
    connection: &Arc<Connection>,
    request: ResumeSessionRequest,
) -> Result<(Occupancy, Option<SessionUpdate>), Error> {
    ignore_servers(request.mcp_servers.len());
    let id = SessionId::new(Arc::clone(&request.session_id.0));
    from_acp::no_more_directories(&request.additional_directories).map_err(fault::invalid)?;
    check_cwd(connection, &id, &request.cwd).await?;
    let (attached, is_new) = connection.open(&id).await?;
    let resumed = async {
        let occupancy =
            attached.occupy(Work::Attach, PromptCancel::of(&CancellationToken::new()))?;
        let standing = standing_plan(&attached.session).await;
        let standing = standing.map_err(|error| fault::read(&error))?;
        let plan = attached.projector.lock().await.restate(standing.as_deref());
        Ok((occupancy, plan))
    };
    let resumed = resumed.await;
    if resumed.is_err() && is_new {
        connection.detach(&attached).await;
    }
    resumed
}

/// Checked against the catalogue, so that a session is not opened for a request that is refused.
async fn check_cwd(
    connection: &Connection,
    id: &SessionId,
    asked: &std::path::Path,
) -> Result<(), Error> {
    let entry = connection.host.sessions().store().entry(id).await;
    let header = entry.map_err(|error| fault::read(&error))?.header;
    from_acp::same_cwd(asked, header.cwd.as_deref()).map_err(fault::invalid)
}

async fn replay(
    attached: &Attached,
    stop: impl Fn() -> bool,
    outbox: &Outbox,
) -> Result<(), Error> {
    let session = &attached.session;
    let mut projector = attached.projector.lock().await;
    projector.begin_replay();
    let until = session.with_state(LogState::next_seq);
    let mut events = session.read(ReadRange {
        from: Seq::ZERO,
        until: Some(until),
        backward: false,
    });
    while let Some(event) = events.next().await {
        let event = event.map_err(|error| fault::read(&error))?;
        for update in projector.push(&event) {
            if stop() {
                return Err(Error::request_cancelled());
            }
            let sent = outbox.send(session.id(), update).await;
            sent.map_err(|gone| fault::internal(&gone))?;
        }
    }
    for update in projector.finish_replay() {
        let sent = outbox.send(session.id(), update).await;
        sent.map_err(|gone| fault::internal(&gone))?;
    }
    Ok(())
}

/// The last list, unless a later turn has begun. Reads no further back than that.
async fn standing_plan(session: &Session) -> Result<Option<Vec<Todo>>, ReadError> {
    let until = session.with_state(LogState::next_seq);
    let mut events = session.read(ReadRange::backward_before(Some(until)));
    while let Some(event) = events.next().await {
        let event = event?;
        if event.is::<TurnStart>() {
            return Ok(None);
        }
        if let Some(TodoWrite { todos }) = event.decode() {
            return Ok(Some(todos));
        }
    }
    Ok(None)
}

/// Editors pass the servers that their user configured with every session, so a refusal would lock
/// them out.
fn ignore_servers(servers: usize) {
    if servers > 0 {
        tracing::warn!(
            servers,
            "MCP servers of clients are not connected in this version"
        );
    }
}
