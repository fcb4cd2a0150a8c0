//! A step: one model call, and the tools it asks for.

use futures::StreamExt as _;
use session_core::event::{
    AssistantChunk, AssistantMessage, Message, MessageSource, Role, StreamChunk, TurnEndReason,
    TurnError,
};
use session_core::{AppendFailure, NewEvent, Seq, SurfaceMeta};

use crate::assemble::{Assembled, Assembler, Finish};
use crate::model::contained;
use crate::turn::Turn;
use crate::{ModelError, ModelRequest, Route};

/// The most chunks that one batch holds.
const BATCH: usize = 64;

/// What follows a step.
#[derive(Debug)]
pub(crate) enum Next {
    /// Another step: the model is to see the results of its calls.
    Step,
    /// The end of the turn.
    End(TurnEndReason),
}

/// What came of a stream.
#[derive(Debug)]
struct Streamed {
    answer: Assembled,
    /// The events of its chunks.
    chunks: Vec<Seq>,
    /// What the turn ends with, where the stream did not end by itself.
    cut: Option<TurnEndReason>,
}

impl Turn<'_> {
    /// Runs the step that has just been started; ends it neither way.
    pub(crate) async fn step(&self, step: u64) -> Result<Next, AppendFailure> {
        if let Some(reason) = self.aborted() {
            return Ok(Next::End(reason));
        }
        let (request, route) = self.request().await?;
        let streamed = self.stream(step, request).await?;
        let Streamed {
            mut answer,
            chunks,
            cut,
        } = streamed;
        let cut = cut.or_else(|| match &answer.finish {
            Finish::Failed(error) => Some(TurnEndReason::Error {
                error: error.clone(),
            }),
            Finish::Done | Finish::MaxTokens => None,
        });
        if let Some(reason) = cut {
            self.interrupted(step, answer, chunks, &route).await?;
            return Ok(Next::End(reason));
        }

        let max_tokens = answer.finish == Finish::MaxTokens;
        if max_tokens {
            // The last one is likely cut off, and the others were asked for together with it.
            answer.drop_calls();
        }
        let calls = answer.calls();
        self.message(step, answer, chunks, &route, false).await?;
        if max_tokens {
            return Ok(Next::End(TurnEndReason::MaxTokens));
        }
        if calls.is_empty() {
            return Ok(Next::End(TurnEndReason::Completed));
        }
        self.dispatch(step, calls).await?;
        Ok(self.aborted().map_or(Next::Step, Next::End))
    }

    async fn stream(&self, step: u64, request: ModelRequest) -> Result<Streamed, AppendFailure> {
        let cancel = self.cancel.token();
        let stream = contained::stream(&*self.agent.model, request, cancel.child_token());
        // What arrives while a batch is being written is the next batch.
        let mut stream = stream.ready_chunks(BATCH);
        let mut assembler = Assembler::default();
        let mut chunks = Vec::new();
        let cut = loop {
            let ready = tokio::select! {
                biased;
                () = cancel.cancelled() => break self.aborted(),
                ready = stream.next() => ready,
            };
            let Some(ready) = ready else {
                // A model that heeds the token may end before the wait above does.
                break self.aborted();
            };
            let (arrived, failed) = until_error(ready);
            let events = arrived.iter().map(|chunk| {
                NewEvent::new(&AssistantChunk {
                    turn: self.turn,
                    step,
                    chunk: chunk.clone(),
                })
            });
            let events = self.session.stage(events.collect()).await?;
            chunks.extend(events.iter().map(session_core::Event::seq));
            arrived.into_iter().for_each(|chunk| assembler.push(chunk));
            if let Some(error) = failed {
                break Some(TurnEndReason::Error { error });
            }
        };
        Ok(Streamed {
            answer: assembler.finish(&*self.agent.ids),
            chunks,
            cut,
        })
    }

    /// Keeps what a person has seen of a stream that was cut short, if there was anything.
    async fn interrupted(
        &self,
        step: u64,
        mut answer: Assembled,
        chunks: Vec<Seq>,
        route: &Route,
    ) -> Result<(), AppendFailure> {
        answer.keep_visible();
        if answer.content.is_empty() {
            return Ok(());
        }
        self.message(step, answer, chunks, route, true).await
    }

    async fn message(
        &self,
        step: u64,
        answer: Assembled,
        chunks: Vec<Seq>,
        route: &Route,
        interrupted: bool,
    ) -> Result<(), AppendFailure> {
        let message = Message {
            id: self.agent.ids.mint().into(),
            role: Role::Assistant,
            content: answer.content,
            source: MessageSource::Model {
                provider: route.provider.clone(),
                model: route.model.clone(),
            },
        };
        let message = AssistantMessage {
            turn: self.turn,
            step,
            message,
            usage: answer.usage,
            interrupted,
        };
        let event = NewEvent::on_surface(&message, SurfaceMeta::append_from(chunks));
        self.session.append(vec![event]).await?;
        Ok(())
    }
}

/// The chunks before the first error, and the error.
fn until_error(
    ready: Vec<Result<StreamChunk, ModelError>>,
) -> (Vec<StreamChunk>, Option<TurnError>) {
    let mut chunks = Vec::with_capacity(ready.len());
    for item in ready {
        match item {
            Ok(chunk) => chunks.push(chunk),
            Err(ModelError { error }) => return (chunks, Some(error)),
        }
    }
    (chunks, None)
}
