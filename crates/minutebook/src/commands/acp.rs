//! `minutebook acp`: an agent for editors, on standard input and output.

use std::sync::Arc;

use acp_adapter::{AgentInfo, Host, PromptError};
use agent_loop::TurnFailure;
use async_trait::async_trait;
use session_core::event::{ContentBlock, TurnEndReason};
use session_core::{Session, Sessions};
use tokio_util::sync::CancellationToken;
use tool_runtime::ToolRegistry;

use crate::cli::{Global, ModelArgs};
use crate::error::Exit;
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
        cancel: CancellationToken,
    ) -> Result<TurnEndReason, PromptError> {
        let ended = self.harness.agent.prompt(session, content, cancel).await;
        ended.map_err(|failure| match failure {
            TurnFailure::TurnOpen { .. } => PromptError::Busy,
            other => PromptError::Failed(other.into()),
        })
    }
}

pub(crate) async fn run(global: &Global, args: &ModelArgs) -> anyhow::Result<Exit> {
    let service = Service::open(global).await?;
    let harness = Harness::new(&service, args)?;
    let host = Arc::new(Program {
        sessions: service.sessions.clone(),
        harness,
    });
    let served = acp_adapter::serve(host, tokio::io::stdin(), tokio::io::stdout()).await;
    service.close().await;
    served?;
    Ok(Exit::Done)
}
