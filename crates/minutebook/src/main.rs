//! The program: composes the crates and holds no logic of its own.

mod cli;
mod commands;
mod error;
mod head;
mod output;
mod place;
mod render;
mod signals;
mod stored;
mod wiring;

use std::process::ExitCode;

use clap::Parser as _;
use tracing_subscriber::EnvFilter;

use cli::{Cli, Command, LogLevel};
use error::{Exit, exit_of};

fn main() -> ExitCode {
    let cli = Cli::parse();
    start_logging(cli.global.log);
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&anyhow::Error::new(error).context("no runtime")).into(),
    };
    let exit = runtime
        .block_on(run(cli))
        .unwrap_or_else(|error| fail(&error));
    // A read of standard input that will not return must not keep the program.
    runtime.shutdown_background();
    exit.into()
}

async fn run(cli: Cli) -> anyhow::Result<Exit> {
    let Cli { global, command } = cli;
    match command {
        Command::Chat(args) => commands::chat::run(&global, args).await,
        Command::Acp(args) => commands::acp::run(&global, &args).await,
        Command::Sessions(args) => commands::sessions::run(&global, args).await,
        Command::Show(args) => commands::show::run(&global, &args.id).await,
        Command::Events(args) => commands::events::run(&global, args).await,
        Command::Todos(args) => commands::todos::run(&global, &args.id).await,
        Command::Verify(args) => commands::verify::run(&global, args).await,
        Command::Quarantine(args) => commands::quarantine::run(&global, &args.id).await,
        Command::Models => commands::models::run(&global),
        Command::Import(args) => commands::import::run(&global, args).await,
        Command::Export(args) => commands::export::run(&global, args).await,
    }
}

fn fail(error: &anyhow::Error) -> Exit {
    // A reader that has seen enough (`| head`) is no failure.
    let is_broken_pipe = error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    });
    if is_broken_pipe {
        return Exit::Done;
    }
    output::complaint(error);
    exit_of(error)
}

/// Logs go to standard error, so that standard output carries data alone.
fn start_logging(level: LogLevel) {
    // At lower levels the protocol crate spells out every handler it has; what concerns a user is
    // in the answers that it sends.
    let filter = EnvFilter::try_new(format!("{},agent_client_protocol=error", level.name()))
        .unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .init();
}
