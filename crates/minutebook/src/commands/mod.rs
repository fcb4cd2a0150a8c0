//! One module for each command.

pub(crate) mod acp;
pub(crate) mod chat;
pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod models;
pub(crate) mod quarantine;
pub(crate) mod sessions;
pub(crate) mod show;
pub(crate) mod todos;
pub(crate) mod verify;
