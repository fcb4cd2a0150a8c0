//! What is sent to the model, and the events that keep it.

use std::sync::PoisonError;

use serde_json::{Map, Value, json};
use session_core::event::{RequestContext, RequestHeader, RequestHeaderBody, RequestReason};
use session_core::{AppendFailure, LogState, NewEvent};
use tool_runtime::ToolDefinition;

use crate::turn::Turn;
use crate::{ModelRequest, Route};

impl ModelRequest {
    /// The request that the log stands for: its last header and its messages. Of a log that ends
    /// before the first chunk of a step, this is what the model was sent in that step.
    ///
    /// `None` when the log has no header, or one of another writer whose tools or system prompt
    /// have another shape.
    #[must_use]
    pub fn rebuild(state: &LogState) -> Option<Self> {
        let RequestHeaderBody { system, tools, .. } = state.request_header()?.header;
        let system = match system {
            None => None,
            Some(Value::String(system)) => Some(system),
            Some(_) => return None,
        };
        let tools = match tools {
            None => Vec::new(),
            Some(tools) => serde_json::from_value(tools).ok()?,
        };
        Some(Self {
            system,
            tools,
            messages: state.messages(),
        })
    }
}

impl Turn<'_> {
    /// Logs what the next request consists of, where the log does not say so already, and returns
    /// the request and its route.
    pub(crate) async fn request(&self) -> Result<(ModelRequest, Route), AppendFailure> {
        let agent = self.agent;
        let route = agent.model.route();
        let system = agent
            .config
            .system
            .clone()
            .filter(|system| !system.is_empty());
        let tools = agent.tools.definitions();

        let header = header(&route, system.as_deref(), &tools);
        let context = RequestContext {
            provider: route.provider.clone(),
            model: route.model.clone(),
            context_window: route.context_window,
        };
        let (logged_header, logged_context) = self
            .session
            .with_state(|state| (state.request_header(), state.request_context()));

        let mut batch = Vec::new();
        let known = self.is_headed();
        let reason = match logged_header {
            None => Some(RequestReason::Initial),
            Some(_) if !known => Some(RequestReason::Resume),
            Some(logged) if logged.header != header => Some(RequestReason::Change),
            Some(_) => None,
        };
        if let Some(reason) = reason {
            batch.push(NewEvent::new(&RequestHeader { header, reason }));
        }
        if logged_context.as_ref() != Some(&context) {
            batch.push(NewEvent::new(&context));
        }
        self.session.append(batch).await?;
        if !known {
            self.set_headed();
        }
        let messages = self.session.messages();
        let request = ModelRequest {
            system,
            tools,
            messages,
        };
        Ok((request, route))
    }

    fn is_headed(&self) -> bool {
        let headed = self.agent.headed.lock();
        headed
            .unwrap_or_else(PoisonError::into_inner)
            .contains(self.session.id())
    }

    fn set_headed(&self) {
        let headed = self.agent.headed.lock();
        headed
            .unwrap_or_else(PoisonError::into_inner)
            .insert(self.session.id().clone());
    }
}

fn header(route: &Route, system: Option<&str>, tools: &[ToolDefinition]) -> RequestHeaderBody {
    let config = [("provider", &route.provider), ("model", &route.model)];
    RequestHeaderBody {
        config: config
            .into_iter()
            .map(|(key, value)| (key.to_owned(), Value::from(value.as_str())))
            .collect::<Map<_, _>>(),
        adapter_defaults: None,
        system: system.map(Value::from),
        tools: (!tools.is_empty()).then(|| json!(tools)),
    }
}
