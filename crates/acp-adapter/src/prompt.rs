//! One prompt: its turn, the updates of the turn, and the answer behind them.

use std::sync::Arc;

use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{PromptRequest, PromptResponse, StopReason};
use agent_client_protocol::{Error, ErrorCode};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use session_core::event::{ContentBlock, TurnEndReason};
use session_core::store::ReadError;
use session_core::{Event, LogState, Seq, SessionId};
use tokio::task::{JoinError, JoinHandle};

use crate::connection::{Attached, Connection, Occupancy, Work};
use crate::outbox::Outbox;
use crate::{PromptCancel, PromptError, fault, from_acp, to_acp};

type Turn = JoinHandle<Result<TurnEndReason, PromptError>>;
type Events = BoxStream<'static, Result<Event, ReadError>>;

/// Begins a prompt. Everything that can be refused is refused before anything is done, and the
/// session is taken before anything is waited for, so that a cancellation which comes right after
/// the request finds it.
pub(crate) fn begin(
    connection: &Arc<Connection>,
    request: &PromptRequest,
    responder: Responder<PromptResponse>,
    outbox: Outbox,
) -> Result<(), Error> {
    let admitted = admit(connection, request);
    let (occupancy, content) = match admitted {
        Ok(admitted) => admitted,
        Err(error) => return responder.respond_with_error(error),
    };
    let (session, cancel) = (occupancy.attached.session.clone(), occupancy.cancel.clone());
    let from = session.with_state(LogState::next_seq);
    let events = session.subscribe(from);
    let host = Arc::clone(&connection.host);
    let stop = cancel.clone();
    let turn = async move { host.prompt(&session, content, stop).await };
    // In a task of its own: the turn ends in the log whatever becomes of the client.
    let turn = connection.turns.spawn(turn);

    let (asked, done) = (responder.cancellation(), occupancy.done());
    connection.tasks.spawn(async move {
        tokio::select! {
            () = asked.cancelled() => cancel.cancel(),
            () = done.cancelled() => {}
        }
    });
    connection.tasks.spawn(async move {
        let answer = follow(&occupancy, turn, events, from, &outbox).await;
        occupancy.finish(|| answered(responder.respond_with_result(answer)));
    });
    Ok(())
}

fn admit(
    connection: &Connection,
    request: &PromptRequest,
) -> Result<(Occupancy, Vec<ContentBlock>), Error> {
    let id = SessionId::new(Arc::clone(&request.session_id.0));
    let attached = connection.attached(&id);
    let attached = attached.ok_or_else(|| fault::no_session(&id))?;
    let content = from_acp::prompt(&request.prompt).map_err(fault::invalid)?;
    let occupancy = attached.occupy(Work::Prompt, PromptCancel::of(&connection.gone))?;
    Ok((occupancy, content))
}

/// Tells the client of everything up to the end of the turn, then gives the answer.
async fn follow(
    occupancy: &Occupancy,
    mut turn: Turn,
    mut events: Events,
    from: Seq,
    outbox: &Outbox,
) -> Result<PromptResponse, Error> {
    let attached = &occupancy.attached;
    let mut told = Telling {
        attached,
        outbox,
        next: from,
        over: None,
    };
    let ended = loop {
        tokio::select! {
            event = events.next(), if told.over.is_none() => told.tell(event).await,
            ended = &mut turn => break ended,
        }
    };
    // The turn may have ended well ahead of what the client has been told.
    let until = attached.session.with_state(LogState::next_seq);
    while told.over.is_none() && told.next < until {
        told.tell(events.next().await).await;
    }
    answer(attached.session.id(), ended, told.over, &occupancy.cancel)
}

/// How far the client has been told of the log.
struct Telling<'a> {
    attached: &'a Attached,
    outbox: &'a Outbox,
    next: Seq,
    over: Option<Over>,
}

/// Why no more can be told.
enum Over {
    Unreadable(ReadError),
    Gone,
}

impl Telling<'_> {
    async fn tell(&mut self, event: Option<Result<Event, ReadError>>) {
        let event = match event {
            Some(Ok(event)) => event,
            Some(Err(error)) => {
                self.over = Some(Over::Unreadable(error));
                return;
            }
            // The session was closed; what was appended before has been told.
            None => {
                self.over = Some(Over::Gone);
                return;
            }
        };
        self.next = event.seq().next();
        let updates = self.attached.projector.lock().await.push(&event);
        for update in updates {
            if self
                .outbox
                .send(self.attached.session.id(), update)
                .await
                .is_err()
            {
                self.over = Some(Over::Gone);
                return;
            }
        }
    }
}

fn answer(
    session: &SessionId,
    ended: Result<Result<TurnEndReason, PromptError>, JoinError>,
    over: Option<Over>,
    cancel: &PromptCancel,
) -> Result<PromptResponse, Error> {
    // A client that cancelled is told so, even where the turn failed or ended in the meantime.
    let is_cancelled = cancel.is_cancelled();
    let reason = match ended {
        Ok(Ok(reason)) => reason,
        Ok(Err(error)) if is_cancelled => {
            let error = fault::chain(&error);
            tracing::warn!(%session, error, "a prompt that was cancelled failed");
            return Ok(PromptResponse::new(StopReason::Cancelled));
        }
        Ok(Err(error)) => return Err(fault::prompt(&error)),
        Err(panicked) => {
            tracing::error!(%session, error = %panicked, "a turn ended without a result");
            if is_cancelled {
                return Ok(PromptResponse::new(StopReason::Cancelled));
            }
            let text = "the turn ended unexpectedly";
            return Err(Error::new(ErrorCode::INTERNAL_ERROR, text));
        }
    };
    if is_cancelled {
        return Ok(PromptResponse::new(StopReason::Cancelled));
    }
    if let Some(Over::Unreadable(error)) = over {
        return Err(fault::read(&error));
    }
    to_acp::stop_reason(reason)
        .map(PromptResponse::new)
        .map_err(|error| fault::turn(&error))
}

/// An answer that finds nobody is no failure.
pub(crate) fn answered(sent: Result<(), Error>) {
    if sent.is_err() {
        tracing::debug!("the client is gone; an answer was not sent");
    }
}
