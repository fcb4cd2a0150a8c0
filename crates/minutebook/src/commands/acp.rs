//! `minutebook acp`: an agent for editors, on standard input and output.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use acp_adapter::{AgentInfo, Host, PromptCancel, PromptError};
use agent_loop::{Cancel, TurnFailure};
use async_trait::async_trait;
use session_core::event::{ContentBlock, TurnEndReason};
use session_core::{Session, Sessions};
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tool_runtime::ToolRegistry;

use crate::cli::{Global, ModelArgs};
use crate::error::Exit;
use crate::signals::Signals;
use crate::wiring::{Harness, Service};

/// What the adapter asks of this program.
struct Program {
    sessions: Sessions,
    harness: Harness,
}

#[async_trait]
impl Host for Program {
    fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    fn tools(&self) -> &ToolRegistry {
        &self.harness.tools
    }

    fn agent_info(&self) -> AgentInfo {
        AgentInfo {
            name: "minutebook".into(),
            title: "Minutebook".into(),
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }

    async fn prompt(
        &self,
        session: &Session,
        content: Vec<ContentBlock>,
        cancel: PromptCancel,
    ) -> Result<TurnEndReason, PromptError> {
        let stop = Cancel::new();
        let mut ended = pin!(self.harness.agent.prompt(session, content, stop.clone()));
        let ended = tokio::select! {
            ended = &mut ended => ended,
            reason = cancel.cancelled() => {
                stop.abort(reason);
                ended.await
            }
        };
        ended.map_err(|failure| match failure {
            TurnFailure::TurnOpen { .. } => PromptError::Busy,
            other => PromptError::Failed(other.into()),
        })
    }
}

pub(crate) async fn run(global: &Global, args: &ModelArgs) -> anyhow::Result<Exit> {
    let service = Service::open_or_create(global).await?;
    let harness = Harness::new(&service, args)?;
    let host = Arc::new(Program {
        sessions: service.sessions.clone(),
        harness,
    });
    let mut signals = Signals::listen()?;
    let stop = CancellationToken::new();
    let input = UntilStopped::new(tokio::io::stdin(), stop.clone());
    let mut serving = pin!(acp_adapter::serve(host, input, tokio::io::stdout()));
    let served = loop {
        tokio::select! {
            served = &mut serving => break served,
            _ = signals.next() => {
                if stop.is_cancelled() {
                    // A client that does not read its answers keeps nobody from leaving.
                    return Ok(Exit::Cancelled);
                }
                stop.cancel();
            }
        }
    };
    service.close().await;
    served?;
    Ok(Exit::Done)
}

/// A reader that ends when it is told to, so that a signal ends a connection as its client would:
/// turns in progress are closed in the log.
struct UntilStopped<R> {
    reader: R,
    stop: CancellationToken,
    stopped: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<R> UntilStopped<R> {
    fn new(reader: R, stop: CancellationToken) -> Self {
        Self {
            reader,
            stopped: Box::pin(stop.clone().cancelled_owned()),
            stop,
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for UntilStopped<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.stop.is_cancelled() || this.stopped.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut this.reader).poll_read(context, buffer)
    }
}
