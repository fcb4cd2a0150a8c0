//! Running the tool calls of one message.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use session_core::event::{ContentBlock, Message, MessageSource, Role, ToolCall, ToolResult};
use session_core::{AppendFailure, NewEvent, Seq, SurfaceMeta};
use tokio::task::{self, JoinError, JoinSet};
use tool_runtime::{ToolContext, ToolFailure, ToolOutcome};

use crate::assemble::Call;
use crate::schedule::Schedule;
use crate::turn::Turn;

/// How long tools that run when the turn is aborted may take to finish.
const DRAIN: Duration = Duration::from_secs(1);

/// A call that has started.
#[derive(Debug)]
struct Started {
    call: Call,
    /// Where its `tool/call` stands.
    at: Seq,
    outcome: Option<ToolOutcome>,
}

/// The calls of one message: those that wait, those whose result is due, and the work between.
#[derive(Debug)]
struct Dispatch<'t, 'a> {
    turn: &'t Turn<'a>,
    step: u64,
    waiting: VecDeque<Call>,
    schedule: Schedule,
    /// Started, without a logged result, in the model's order.
    due: VecDeque<Started>,
    /// How many results are logged.
    logged: usize,
    // Each body is a task, so that it goes on while the log is written. Dropping the set stops
    // them.
    bodies: JoinSet<ToolOutcome>,
    /// Which call a body belongs to, counted from the first of the message.
    owners: HashMap<task::Id, usize>,
}

type Joined = Result<(task::Id, ToolOutcome), JoinError>;

impl Turn<'_> {
    /// Runs the calls and logs a result for each, in the model's order.
    ///
    /// When the turn is aborted meanwhile, no further call starts, those that run get a moment to
    /// finish, and each of the others is logged with a result that says so.
    pub(crate) async fn dispatch(&self, step: u64, calls: Vec<Call>) -> Result<(), AppendFailure> {
        let dispatch = Dispatch {
            turn: self,
            step,
            waiting: calls.into(),
            schedule: Schedule::new(self.agent.config.max_parallel_tools),
            due: VecDeque::new(),
            logged: 0,
            bodies: JoinSet::new(),
            owners: HashMap::new(),
        };
        dispatch.run().await
    }
}

impl Dispatch<'_, '_> {
    async fn run(mut self) -> Result<(), AppendFailure> {
        let cancel = self.turn.cancel.token();
        while !cancel.is_cancelled() {
            self.start().await?;
            let joined = tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                joined = self.bodies.join_next_with_id() => joined,
            };
            let Some(joined) = joined else {
                return Ok(());
            };
            self.settle(joined);
            self.log_settled().await?;
        }
        self.drain().await;
        self.log_settled().await?;
        self.skip_waiting().await
    }

    /// Starts as many calls as may run now: logs them, then runs their bodies.
    async fn start(&mut self) -> Result<(), AppendFailure> {
        let tools = &self.turn.agent.tools;
        let schedule = &mut self.schedule;
        let mut starting = Vec::new();
        while let Some(call) = self.waiting.pop_front_if(|call| {
            schedule.start(tools.is_parallel_safe(&call.name, &call.arguments))
        }) {
            starting.push(call);
        }
        for (call, at) in self.log_calls(starting).await? {
            let context = ToolContext::owned(
                self.turn.session.clone(),
                call.id.clone(),
                self.turn.cancel.token().child_token(),
            );
            let (tools, name, arguments) = (
                self.turn.agent.tools.clone(),
                call.name.clone(),
                call.arguments.clone(),
            );
            let body = async move { tools.run(&name, &arguments, &context).await };
            let id = self.bodies.spawn(body).id();
            self.owners.insert(id, self.logged + self.due.len());
            self.due.push_back(Started {
                call,
                at,
                outcome: None,
            });
        }
        Ok(())
    }

    fn settle(&mut self, joined: Joined) {
        let (id, outcome) = match joined {
            Ok((id, outcome)) => (id, outcome),
            Err(lost) => (lost.id(), lost_outcome()),
        };
        self.schedule.settle();
        let owner = self.owners.remove(&id);
        let started = owner.and_then(|owner| self.due.get_mut(owner - self.logged));
        if let Some(started) = started {
            started.outcome = Some(outcome);
        }
    }

    /// Lets the bodies that run finish, for a while; what does not is stopped.
    async fn drain(&mut self) {
        let drained = tokio::time::timeout(DRAIN, async {
            while let Some(joined) = self.bodies.join_next_with_id().await {
                self.settle(joined);
            }
        });
        // Past the time, the outcomes below stand for the missing ones.
        let _ = drained.await;
        self.bodies.abort_all();
        for started in &mut self.due {
            started.outcome.get_or_insert_with(aborted_outcome);
        }
    }

    /// Logs the results that are due next and there.
    async fn log_settled(&mut self) -> Result<(), AppendFailure> {
        let mut results = Vec::new();
        while let Some(Started {
            call,
            at,
            outcome: Some(outcome),
        }) = self.due.pop_front_if(|next| next.outcome.is_some())
        {
            results.push(self.result(call, at, outcome));
        }
        self.logged += results.len();
        self.turn.session.append(results).await?;
        Ok(())
    }

    async fn skip_waiting(mut self) -> Result<(), AppendFailure> {
        let waiting = std::mem::take(&mut self.waiting).into();
        let skipped = self.log_calls(waiting).await?;
        let results = skipped
            .into_iter()
            .map(|(call, at)| self.result(call, at, skipped_outcome()));
        self.turn.session.append(results.collect()).await?;
        Ok(())
    }

    async fn log_calls(&self, calls: Vec<Call>) -> Result<Vec<(Call, Seq)>, AppendFailure> {
        let batch = calls.iter().map(|call| {
            NewEvent::new(&ToolCall {
                turn: self.turn.turn,
                step: self.step,
                call_id: call.id.clone(),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
            })
        });
        let events = self.turn.session.append(batch.collect()).await?;
        let seqs = events.iter().map(session_core::Event::seq);
        Ok(calls.into_iter().zip(seqs).collect())
    }

    fn result(&self, call: Call, at: Seq, outcome: ToolOutcome) -> NewEvent {
        let ToolOutcome {
            content,
            is_error,
            value: _,
            error,
            meta,
        } = outcome;
        let block = ContentBlock::ToolResult {
            tool_call_id: call.id.clone(),
            content,
            is_error,
        };
        let message = Message {
            id: self.turn.agent.ids.mint().into(),
            role: Role::User,
            content: vec![block],
            source: MessageSource::Tool { call_id: call.id },
        };
        let result = ToolResult {
            turn: self.turn.turn,
            step: self.step,
            message,
            error,
            meta,
        };
        NewEvent::on_surface(&result, SurfaceMeta::append_from(vec![at]))
    }
}

fn aborted_outcome() -> ToolOutcome {
    let message = "the turn was aborted while this tool call was running; it may have taken effect";
    ToolFailure::coded("ABORTED", message).into()
}

fn skipped_outcome() -> ToolOutcome {
    let message = "the turn was aborted before this tool call started; it had no effect";
    ToolFailure::coded("ABORTED_BEFORE_DISPATCH", message).into()
}

fn lost_outcome() -> ToolOutcome {
    ToolFailure::coded("PANIC", "the tool failed unexpectedly").into()
}
