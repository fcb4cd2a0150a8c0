//! Composes the crates: the one place that knows them all.

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent_loop::{Agent, AgentConfig, Model, OfflineModel, ScriptedModel};
use projection::{CheckpointPolicy, Projections, UnitGuard};
use session_core::store::{EventStore, ReadError};
use session_core::{
    Access, ListFilter, ListQuery, ObserverGuard, OpenError, OpenOptions, SessionId, Sessions,
    SqliteStore, Vocabulary,
};
use todo_tool::{TodoConfig, TodoWriteTool, Todos};
use tool_runtime::{ToolGuard, ToolRegistry};

use crate::cli::{Global, ModelArgs};
use crate::error::InputError;
use crate::place;

/// How long the offline model stays with an item, so that a person sees the list move.
const PACE: Duration = Duration::from_millis(600);

const SYSTEM_PROMPT: &str = "\
You are the agent of a Minutebook session. For work of more than one step, keep a to-do list with \
todo_write and keep it true. Say briefly what you did.";

/// Sessions on a database, with the projections that are folded from them.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) sessions: Sessions,
    pub(crate) projections: Projections,
    _units: Vec<UnitGuard>,
    _observer: ObserverGuard,
}

impl Service {
    /// Opens the database, made if it is missing, and puts sessions and projections on it.
    pub(crate) async fn open_or_create(global: &Global) -> anyhow::Result<Self> {
        let path = place::database(global.db.as_deref())?.path;
        let opened = options(global, true).open(path).await;
        Self::on(opened.map_err(cannot_write)?)
    }

    /// Opens the database, which must be there.
    pub(crate) async fn open(global: &Global) -> anyhow::Result<Self> {
        let path = place::database(global.db.as_deref())?.path;
        match options(global, false).open(&path).await {
            Err(OpenError::Missing { .. }) => Err(InputError::NoDatabase(path).into()),
            opened => Self::on(opened.map_err(cannot_write)?),
        }
    }

    /// Opens the database, which must be there, for a command that only reads.
    pub(crate) async fn open_to_read(global: &Global) -> anyhow::Result<Self> {
        let path = place::database(global.db.as_deref())?.path;
        Self::existing_to_read(global, &path)
            .await?
            .ok_or_else(|| InputError::NoDatabase(path).into())
    }

    /// Opens a database, if it is there, for a command that only reads.
    pub(crate) async fn existing_to_read(
        global: &Global,
        path: &Path,
    ) -> anyhow::Result<Option<Self>> {
        let options = options(global, false);
        // For writing where that may be: an older schema is brought up to date, and what the
        // projections folded is kept for the next command.
        let opened = match options.open(path).await {
            Err(
                OpenError::NewerSchema {
                    is_readable: true, ..
                }
                | OpenError::NetworkFileSystem { .. },
            ) => read_only(options).open(path).await,
            opened => opened,
        };
        match opened {
            Err(OpenError::Missing { .. }) => Ok(None),
            opened => Self::on(opened?).map(Some),
        }
    }

    fn on(store: SqliteStore) -> anyhow::Result<Self> {
        let store = Arc::new(store);
        let sessions = Sessions::builder(store.clone())
            .leases(store.clone())
            .vocabulary(Vocabulary::original_harness())
            .build();
        let projections = Projections::new(Some(store.clone()), CheckpointPolicy::default());
        let units = vec![projections.register_visible::<Todos>()?];
        let observer = projections.attach(&sessions);
        Ok(Self {
            store,
            sessions,
            projections,
            _units: units,
            _observer: observer,
        })
    }

    /// The stored logs, for commands that show what is in them: events in their present shape.
    pub(crate) fn log(&self) -> &dyn EventStore {
        &**self.sessions.store()
    }

    /// The session that an id, or a unique prefix of one, names.
    pub(crate) async fn resolve(&self, prefix: &str) -> anyhow::Result<SessionId> {
        if prefix.trim().is_empty() {
            return Err(InputError::NoId.into());
        }
        let exact = SessionId::from(prefix);
        match self.store.entry(&exact).await {
            // A header that does not decode is for the caller to meet.
            Ok(_) | Err(ReadError::Header { .. }) => return Ok(exact),
            Err(ReadError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let filter = ListFilter {
            id_prefix: Some(prefix.to_owned()),
            include_blank: true,
            ..ListFilter::default()
        };
        let query = ListQuery {
            filter,
            limit: 10,
            ..ListQuery::default()
        };
        let page = self.store.list(&query).await?;
        let mut candidates: Vec<SessionId> = page
            .entries
            .into_iter()
            .map(|entry| entry.header.id)
            .chain(page.damaged)
            .collect();
        let prefix = prefix.to_owned();
        match candidates.len() {
            1 => Ok(candidates.swap_remove(0)),
            0 => Err(InputError::UnknownSession { prefix }.into()),
            _ => Err(InputError::AmbiguousSession { prefix, candidates }.into()),
        }
    }

    /// Closes sessions and the database.
    pub(crate) async fn close(self) {
        self.sessions.close_all().await;
        self.store.close().await;
    }
}

fn options(global: &Global, create: bool) -> OpenOptions {
    OpenOptions {
        create,
        allow_network_file_system: global.allow_network_file_system,
        ..OpenOptions::default()
    }
}

fn read_only(options: OpenOptions) -> OpenOptions {
    tracing::info!("the database is opened for reading only");
    OpenOptions {
        access: Access::ReadOnly,
        ..options
    }
}

/// What a command that writes says of a database that can only be read.
fn cannot_write(error: OpenError) -> anyhow::Error {
    let advice = match &error {
        OpenError::NewerSchema {
            is_readable: true, ..
        } => "",
        OpenError::NetworkFileSystem { .. } => "; --allow-network-file-system opens it to all",
        _ => return error.into(),
    };
    let readers = "sessions, show, events, todos, verify and export";
    let advice = format!("only the commands that read can use this database: {readers}{advice}");
    anyhow::Error::new(error).context(advice)
}

/// An agent with its tools.
#[derive(Debug)]
pub(crate) struct Harness {
    pub(crate) agent: Agent,
    pub(crate) tools: ToolRegistry,
    _tools: Vec<ToolGuard>,
}

impl Harness {
    /// Puts an agent together.
    pub(crate) fn new(service: &Service, args: &ModelArgs) -> anyhow::Result<Self> {
        let tools = ToolRegistry::default();
        let todo_write = TodoWriteTool::new(TodoConfig::new(args.parallel_todos));
        let guards = vec![tools.register(Arc::new(todo_write))?];
        let config = AgentConfig {
            system: Some(SYSTEM_PROMPT.to_owned()),
            max_steps: NonZeroU64::new(args.max_steps).unwrap_or(NonZeroU64::MIN),
            ..AgentConfig::default()
        };
        let ids = service.sessions.ids().clone();
        let agent = Agent::new(model(&args.model)?, tools.clone(), config, ids);
        Ok(Self {
            agent,
            tools,
            _tools: guards,
        })
    }
}

fn model(name: &str) -> anyhow::Result<Arc<dyn Model>> {
    match name.split_once(':') {
        None if name == "offline" => Ok(Arc::new(OfflineModel::new(PACE))),
        Some(("script", file)) => {
            let scripted = ScriptedModel::from_file(file).map_err(|source| InputError::Script {
                model: name.to_owned(),
                source,
            })?;
            Ok(Arc::new(scripted))
        }
        _ => Err(InputError::UnknownModel {
            model: name.to_owned(),
        }
        .into()),
    }
}
