//! A model that needs no network: it walks the items of the prompt through a plan.

mod items;

use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::{Value, json};
use session_core::event::{ChunkFinish, ContentBlock, Message, MessageSource, Role, StreamChunk};
use tokio_util::sync::CancellationToken;

use super::{Model, ModelError, ModelRequest, Route, blocks};
use items::Items;

const TODO_WRITE: &str = "todo_write";

/// Works through the items of the user's own prompt with `todo_write`, and says that this is all it
/// does.
///
/// The items are the list lines of the prompt, else its lines, else its sentences. Each is first
/// pending, then in progress, then completed; nothing is executed. Where it stands is read from the
/// request alone, so that the same request always has the same answer. It reports no usage.
#[derive(Debug, Clone)]
pub struct OfflineModel {
    pace: Duration,
}

impl OfflineModel {
    /// One that stays on each item for `pace`.
    #[must_use]
    pub const fn new(pace: Duration) -> Self {
        Self { pace }
    }
}

impl Default for OfflineModel {
    /// One that stays on each item for 400 ms.
    fn default() -> Self {
        Self::new(Duration::from_millis(400))
    }
}

impl Model for OfflineModel {
    fn route(&self) -> Route {
        Route {
            provider: "offline".into(),
            model: "offline".into(),
            context_window: None,
        }
    }

    fn stream(
        &self,
        request: ModelRequest,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<StreamChunk, ModelError>> {
        let stands = Stands::of(&request);
        let pace = match &stands {
            Stands::Written { .. } => self.pace,
            _ => Duration::ZERO,
        };
        let paced = stream::once(async move {
            super::pause(pace).await;
            stream::iter(answer(stands).into_iter().map(Ok))
        });
        paced.flatten().take_until(cancel.cancelled_owned()).boxed()
    }
}

/// Where the work on the last prompt stands.
#[derive(Debug, PartialEq, Eq)]
enum Stands {
    /// The prompt has no text to work on.
    NoText,
    /// There is no `todo_write` to work with.
    NoTool { items: Items },
    /// Nothing has been done.
    New { items: Items, prompt: String },
    /// The plan has been written so many times.
    Written {
        items: Items,
        prompt: String,
        times: usize,
    },
    /// The plan could not be written.
    Refused { account: String },
}

impl Stands {
    fn of(request: &ModelRequest) -> Self {
        let is_prompt = |message: &Message| {
            message.role == Role::User && !matches!(message.source, MessageSource::Tool { .. })
        };
        let messages = &request.messages;
        let Some(at) = messages.iter().rposition(|message| is_prompt(message)) else {
            return Self::NoText;
        };
        let (prompt, since) = (&messages[at], &messages[at + 1..]);
        let items = Items::of(&prompt.text());
        if items.kept.is_empty() {
            return Self::NoText;
        }
        if !request.tools.iter().any(|tool| tool.name == TODO_WRITE) {
            return Self::NoTool { items };
        }
        let results = since.iter().flat_map(|message| &message.content);
        let mut times = 0;
        for block in results {
            match block {
                ContentBlock::ToolResult {
                    is_error: true,
                    content,
                    ..
                } => {
                    let account = content.iter().filter_map(|block| match block {
                        ContentBlock::Text { text } => Some(text.as_str()),
                        _ => None,
                    });
                    let account = account.collect::<Vec<_>>().join("\n");
                    return Self::Refused { account };
                }
                ContentBlock::ToolResult { .. } => times += 1,
                _ => {}
            }
        }
        let prompt = prompt.id.as_str().to_owned();
        if times == 0 {
            Self::New { items, prompt }
        } else {
            Self::Written {
                items,
                prompt,
                times,
            }
        }
    }
}

fn answer(stands: Stands) -> Vec<StreamChunk> {
    let content = match stands {
        Stands::NoText => vec![ContentBlock::text(
            "This is the offline model: no AI model was consulted. It works through the text of a \
             prompt, and this prompt has none.",
        )],
        Stands::NoTool { items } => vec![ContentBlock::text(format!(
            "This is the offline model: no AI model was consulted, and nothing was executed. There \
             is no {TODO_WRITE} tool to keep a plan with; these are the items of your prompt{}:\n{}",
            items.left_out(),
            items.listed(),
        ))],
        Stands::New { items, prompt } => {
            let count = items.counted();
            vec![
                ContentBlock::Reasoning {
                    text: format!("The prompt has {count}. I write them down as the plan."),
                },
                ContentBlock::text(format!(
                    "This is the offline model: no AI model is consulted. I plan {count} from your \
                     prompt{} and walk through the plan; nothing is executed.",
                    items.left_out(),
                )),
                call(&items, &prompt, 0),
            ]
        }
        Stands::Written {
            items,
            prompt,
            times,
        } if times <= items.kept.len() => vec![call(&items, &prompt, times)],
        Stands::Written { items, .. } => vec![ContentBlock::text(format!(
            "I walked {} through the plan, each from pending to completed. That was a \
             demonstration: no AI model was consulted, and nothing was executed.",
            items.counted(),
        ))],
        Stands::Refused { account } => vec![ContentBlock::text(format!(
            "I stop here, because {TODO_WRITE} failed and no AI model is consulted that could find \
             another way. It said: {account}"
        ))],
    };
    let calls = content
        .iter()
        .any(|block| matches!(block, ContentBlock::ToolCall { .. }));
    let reason = if calls {
        ChunkFinish::ToolCalls
    } else {
        ChunkFinish::Stop
    };
    let chunks = (0..)
        .zip(content)
        .flat_map(|(index, block)| blocks::chunks(index, block));
    chunks.chain([StreamChunk::Finish { reason }]).collect()
}

/// The call that writes the plan with `done` items completed and the next one in progress.
fn call(items: &Items, prompt: &str, done: usize) -> ContentBlock {
    let todos = items.kept.iter().enumerate().map(|(place, content)| {
        let status = match place.cmp(&done) {
            std::cmp::Ordering::Less => "completed",
            std::cmp::Ordering::Equal => "in_progress",
            std::cmp::Ordering::Greater => "pending",
        };
        json!({ "content": content, "status": status })
    });
    let arguments = json!({ "todos": todos.collect::<Vec<Value>>() });
    ContentBlock::ToolCall {
        // Of the prompt's id, so that no other call of the session has it.
        id: format!("{prompt}-todo-{}", done + 1).into(),
        name: TODO_WRITE.into(),
        arguments: arguments.to_string(),
    }
}
