//! The agent: the protocol's requests, each handed to what answers it.

use std::fmt;
use std::io;
use std::sync::Arc;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, AuthenticateRequest, AuthenticateResponse, CancelNotification,
    CloseSessionRequest, CloseSessionResponse, Implementation, InitializeRequest,
    InitializeResponse, ListSessionsRequest, ListSessionsResponse, LoadSessionRequest,
    LoadSessionResponse, NewSessionRequest, NewSessionResponse, PromptCapabilities, PromptRequest,
    PromptResponse, ResumeSessionRequest, ResumeSessionResponse, SessionCapabilities,
    SessionCloseCapabilities, SessionListCapabilities, SessionResumeCapabilities,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, Client, Error, JsonRpcResponse, on_receive_notification, on_receive_request,
};
use session_core::SessionId;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::connection::Connection;
use crate::holders::Holders;
use crate::outbox::Outbox;
use crate::prompt::{self, answered};
use crate::transport::{Broken, Transport};
use crate::{AgentInfo, Host, attach, fault, listing};

/// Why a connection ended otherwise than by the end of its input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The client could not be read from.
    #[error("the client's messages could not be read")]
    Read(#[source] io::Error),
    /// The client could not be written to.
    #[error("the client could not be written to")]
    Write(#[source] io::Error),
    /// The protocol crate gave up.
    #[error("the protocol failed")]
    Protocol(#[source] Error),
}

/// An agent for any number of clients.
///
/// Clients of one agent may have the same session open; it is closed behind the last of them.
/// Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct AcpAgent {
    host: Arc<dyn Host>,
    holders: Arc<Holders>,
}

impl fmt::Debug for AcpAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcpAgent")
            .field("info", &self.host.agent_info())
            .finish_non_exhaustive()
    }
}

/// Serves one client, as [`AcpAgent::serve`] does. For more than one, make an [`AcpAgent`].
///
/// # Errors
///
/// Returns [`ServeError`] when a stream fails.
///
/// # Cancel safety
///
/// As [`AcpAgent::serve`].
pub async fn serve<R, W>(host: Arc<dyn Host>, reader: R, writer: W) -> Result<(), ServeError>
where
    R: AsyncRead + Send + 'static,
    W: AsyncWrite + Send + 'static,
{
    AcpAgent::new(host).serve(reader, writer).await
}

impl AcpAgent {
    /// An agent of this harness.
    #[must_use]
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self {
            host,
            holders: Arc::default(),
        }
    }

    /// Serves one client until its input ends. Needs a tokio runtime with time enabled.
    ///
    /// At the end of the input, turns in progress are cancelled and waited for, so that the log
    /// closes them; what is answered still goes out; and the sessions that no other client of this
    /// agent has open are closed. The same happens when a stream fails, except for the answers. A
    /// client that has ended its input and leaves a write waiting for 5 s counts as such a failure.
    ///
    /// # Errors
    ///
    /// Returns [`ServeError`] when a stream fails, with [`io::ErrorKind::TimedOut`] inside when the
    /// client did not read the rest.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the turns in progress, which close in the log by themselves; the
    /// sessions stay open in this process.
    pub async fn serve<R, W>(&self, reader: R, writer: W) -> Result<(), ServeError>
    where
        R: AsyncRead + Send + 'static,
        W: AsyncWrite + Send + 'static,
    {
        let (host, holders) = (Arc::clone(&self.host), Arc::clone(&self.holders));
        let connection = Connection::new(host, holders);
        let _gone = connection.gone.clone().drop_guard();
        let broken = Broken::default();
        let transport = Transport {
            reader,
            writer,
            room: Arc::clone(&connection.room),
            broken: broken.clone(),
        };
        let served = run(&connection, transport).await;
        connection.wind_up().await;
        served.map_err(|error| broken.take().unwrap_or(ServeError::Protocol(error)))
    }
}

/// What a handler of the protocol crate is made of. None waits for anything: the crate dispatches
/// nothing else meanwhile.
struct Handler(Arc<Connection>);

impl Clone for Handler {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

async fn run<R, W>(connection: &Arc<Connection>, transport: Transport<R, W>) -> Result<(), Error>
where
    R: AsyncRead + Send + 'static,
    W: AsyncWrite + Send + 'static,
{
    // The crate's type inference wants the macro behind each handler.
    macro_rules! on {
        ($handle:ident: $request:ty) => {{
            let handler = Handler(Arc::clone(connection));
            async move |request: $request, responder, client: ConnectionTo<Client>| {
                handler.$handle(request, responder, client)
            }
        }};
    }
    let (cancelling, closing) = (Handler(Arc::clone(connection)), Arc::clone(connection));
    Agent
        .v1()
        .name(connection.host.agent_info().name)
        .on_receive_request(on!(initialize: InitializeRequest), on_receive_request!())
        .on_receive_request(
            on!(authenticate: AuthenticateRequest),
            on_receive_request!(),
        )
        .on_receive_request(on!(new_session: NewSessionRequest), on_receive_request!())
        .on_receive_request(on!(load_session: LoadSessionRequest), on_receive_request!())
        .on_receive_request(
            on!(resume_session: ResumeSessionRequest),
            on_receive_request!(),
        )
        .on_receive_request(
            on!(list_sessions: ListSessionsRequest),
            on_receive_request!(),
        )
        .on_receive_request(
            on!(close_session: CloseSessionRequest),
            on_receive_request!(),
        )
        .on_receive_request(on!(prompt: PromptRequest), on_receive_request!())
        .on_receive_notification(
            async move |cancel: CancelNotification, _: ConnectionTo<Client>| {
                cancelling.cancel(cancel);
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_close(async move |_: ConnectionTo<Client>| {
            closing.wind_up().await;
            Ok(())
        })
        .connect_to(transport)
        .await
}

type Handled = Result<(), Error>;

impl Handler {
    fn initialize(
        &self,
        request: InitializeRequest,
        responder: Responder<InitializeResponse>,
        _: ConnectionTo<Client>,
    ) -> Handled {
        self.0.set_client(request.client_capabilities);
        let AgentInfo {
            name,
            title,
            version,
        } = self.0.host.agent_info();
        let sessions = SessionCapabilities::new()
            .list(SessionListCapabilities::new())
            .resume(SessionResumeCapabilities::new())
            .close(SessionCloseCapabilities::new());
        let capabilities = AgentCapabilities::new()
            .load_session(true)
            .prompt_capabilities(PromptCapabilities::new().embedded_context(true))
            .session_capabilities(sessions);
        let response = InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(capabilities)
            .agent_info(Implementation::new(name, version).title(title));
        responder.respond(response)
    }

    fn authenticate(
        &self,
        _: AuthenticateRequest,
        responder: Responder<AuthenticateResponse>,
        _: ConnectionTo<Client>,
    ) -> Handled {
        responder.respond(AuthenticateResponse::new())
    }

    fn new_session(
        &self,
        request: NewSessionRequest,
        responder: Responder<NewSessionResponse>,
        _: ConnectionTo<Client>,
    ) -> Handled {
        let new = match attach::new_session(&request) {
            Ok(new) => new,
            Err(error) => return responder.respond_with_error(error),
        };
        let connection = Arc::clone(&self.0);
        self.respond_later(responder, async move {
            let id = connection.create(new).await?;
            Ok(NewSessionResponse::new(id.as_str().to_owned()))
        });
        Ok(())
    }

    fn load_session(
        &self,
        request: LoadSessionRequest,
        responder: Responder<LoadSessionResponse>,
        client: ConnectionTo<Client>,
    ) -> Handled {
        let (connection, outbox) = (Arc::clone(&self.0), self.outbox(client));
        self.0.tasks.spawn(async move {
            let asked = responder.cancellation();
            match attach::load(&connection, request, &asked, &outbox).await {
                Ok(occupancy) => {
                    occupancy.finish(|| answered(responder.respond(LoadSessionResponse::new())));
                }
                Err(error) => answered(responder.respond_with_error(error)),
            }
        });
        Ok(())
    }

    fn resume_session(
        &self,
        request: ResumeSessionRequest,
        responder: Responder<ResumeSessionResponse>,
        client: ConnectionTo<Client>,
    ) -> Handled {
        let (connection, outbox) = (Arc::clone(&self.0), self.outbox(client));
        self.0.tasks.spawn(async move {
            let (occupancy, plan) = match attach::resume(&connection, request).await {
                Ok(resumed) => resumed,
                Err(error) => return answered(responder.respond_with_error(error)),
            };
            let session = occupancy.attached.session.clone();
            let seat = outbox.seat().await;
            occupancy.finish(|| {
                answered(responder.respond(ResumeSessionResponse::new()));
                // State, not history, so it comes behind the answer.
                if let (Some(plan), Ok(seat)) = (plan, seat) {
                    // Without a client there is nobody to tell.
                    let _ = seat.send(session.id(), plan);
                }
            });
        });
        Ok(())
    }

    fn list_sessions(
        &self,
        request: ListSessionsRequest,
        responder: Responder<ListSessionsResponse>,
        _: ConnectionTo<Client>,
    ) -> Handled {
        let host = Arc::clone(&self.0.host);
        self.respond_later(responder, async move {
            let query = listing::query(&request)?;
            listing::page(host.sessions(), query).await
        });
        Ok(())
    }

    fn close_session(
        &self,
        request: CloseSessionRequest,
        responder: Responder<CloseSessionResponse>,
        _: ConnectionTo<Client>,
    ) -> Handled {
        let id = SessionId::new(request.session_id.0);
        let attached = self.0.attached(&id);
        let Some(attached) = attached.filter(|attached| self.0.forget(attached)) else {
            return responder.respond_with_error(fault::no_session(&id));
        };
        let connection = Arc::clone(&self.0);
        self.respond_later(responder, async move {
            attached.interrupt().await;
            connection.release(&attached).await;
            Ok(CloseSessionResponse::new())
        });
        Ok(())
    }

    fn prompt(
        &self,
        request: PromptRequest,
        responder: Responder<PromptResponse>,
        client: ConnectionTo<Client>,
    ) -> Handled {
        prompt::begin(&self.0, &request, responder, self.outbox(client))
    }

    fn cancel(&self, request: CancelNotification) {
        if let Some(attached) = self.0.attached(&SessionId::new(request.session_id.0)) {
            attached.cancel_prompt();
        }
    }

    fn outbox(&self, client: ConnectionTo<Client>) -> Outbox {
        Outbox::new(client, Arc::clone(&self.0.room))
    }

    fn respond_later<T: JsonRpcResponse + Send>(
        &self,
        responder: Responder<T>,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) {
        self.0.tasks.spawn(async move {
            let result = work.await;
            answered(responder.respond_with_result(result));
        });
    }
}
