//! `minutebook models`: what can answer a prompt now.

use serde::Serialize;

use crate::cli::Global;
use crate::error::Exit;
use crate::output;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ModelLine {
    id: &'static str,
    available: bool,
    about: &'static str,
}

const MODELS: [ModelLine; 2] = [
    ModelLine {
        id: "offline",
        available: true,
        about: "needs no key and no network: works through the items of your own prompt",
    },
    ModelLine {
        id: "script:FILE",
        available: true,
        about: "answers from a file of responses, for tests and demonstrations",
    },
];

pub(crate) fn run(global: &Global) -> anyhow::Result<Exit> {
    for model in &MODELS {
        if global.json {
            output::json(model)?;
        } else {
            output::line(format!("{:<14}{}", model.id, model.about))?;
        }
    }
    Ok(Exit::Done)
}
