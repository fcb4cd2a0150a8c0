//! What clients send in our words: pure functions that check everything before anything is done.

use std::path::{Component, Path, PathBuf};

use agent_client_protocol::v1::schema::{self, EmbeddedResourceResource};
use session_core::event::ContentBlock;

/// Why the parameters of a request are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The folder of a session must not depend on where the agent was started.
    #[error("cwd must be an absolute path, not {0:?}")]
    RelativeCwd(PathBuf),
    /// A session works in one folder for life.
    #[error("the session works in {}, not in {asked:?}", describe(.session.as_deref()))]
    OtherCwd {
        /// Where the session works.
        session: Option<String>,
        /// What the client asked for.
        asked: String,
    },
    /// A prompt that says nothing.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// A block of a kind that the agent did not say it takes.
    #[error("prompt[{index}]: this agent takes no {kind}")]
    UnsupportedBlock {
        /// Which block.
        index: usize,
        /// What it holds.
        kind: &'static str,
    },
    /// The session has only the one folder.
    #[error("this agent takes no additionalDirectories")]
    AdditionalDirectories,
}

fn describe(cwd: Option<&str>) -> String {
    cwd.map_or_else(|| "no folder".to_owned(), |cwd| format!("{cwd:?}"))
}

/// The folder that a request names, without `.`, `..` and trailing slashes. The file system is not
/// asked, so that symbolic links and missing folders change nothing.
///
/// # Errors
///
/// Returns [`Refusal::RelativeCwd`] for a path that is not absolute.
pub fn cwd(path: &Path) -> Result<String, Refusal> {
    if !path.is_absolute() {
        return Err(Refusal::RelativeCwd(path.to_owned()));
    }
    Ok(normalise(path))
}

/// Checks that a request names the folder that a session works in.
///
/// # Errors
///
/// Returns [`Refusal::RelativeCwd`] or [`Refusal::OtherCwd`].
pub fn same_cwd(asked: &Path, session: Option<&str>) -> Result<(), Refusal> {
    let asked = cwd(asked)?;
    if session.is_some_and(|session| normalise(Path::new(session)) == asked) {
        return Ok(());
    }
    let session = session.map(str::to_owned);
    Err(Refusal::OtherCwd { session, asked })
}

/// Refuses further folders; the agent does not say that it takes them.
///
/// # Errors
///
/// Returns [`Refusal::AdditionalDirectories`] if there are any.
pub fn no_more_directories(directories: &[PathBuf]) -> Result<(), Refusal> {
    if directories.is_empty() {
        Ok(())
    } else {
        Err(Refusal::AdditionalDirectories)
    }
}

fn normalise(path: &Path) -> String {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                normal.push(component);
            }
        }
    }
    // Paths come as JSON strings, so they are Unicode.
    normal.to_string_lossy().into_owned()
}

/// The content of a prompt: texts as they are, links and embedded texts as text.
///
/// # Errors
///
/// Returns the first block that the agent does not take, or [`Refusal::EmptyPrompt`] for a prompt
/// without anything but white space.
pub fn prompt(blocks: &[schema::ContentBlock]) -> Result<Vec<ContentBlock>, Refusal> {
    let texts = blocks
        .iter()
        .enumerate()
        .map(|(index, block)| {
            flatten(block).map_err(|kind| Refusal::UnsupportedBlock { index, kind })
        })
        .collect::<Result<Vec<_>, _>>()?;
    if texts.iter().all(|text| text.trim().is_empty()) {
        return Err(Refusal::EmptyPrompt);
    }
    Ok(texts.into_iter().map(ContentBlock::text).collect())
}

fn flatten(block: &schema::ContentBlock) -> Result<String, &'static str> {
    match block {
        schema::ContentBlock::Text(text) => Ok(text.text.clone()),
        schema::ContentBlock::ResourceLink(link) => Ok(format!("[{}]({})", link.name, link.uri)),
        schema::ContentBlock::Resource(embedded) => match &embedded.resource {
            EmbeddedResourceResource::TextResourceContents(resource) => Ok(format!(
                "<resource uri=\"{}\">\n{}\n</resource>",
                resource.uri.replace('"', "%22"),
                resource.text
            )),
            _ => Err("binary resources"),
        },
        schema::ContentBlock::Image(_) => Err("images"),
        schema::ContentBlock::Audio(_) => Err("audio"),
        // A kind of a later protocol.
        _ => Err("blocks of this kind"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(blocks: Value) -> Result<Vec<ContentBlock>, String> {
        let blocks: Vec<schema::ContentBlock> = serde_json::from_value(blocks).unwrap();
        prompt(&blocks).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn links_and_embedded_texts_become_text_in_their_place() {
        let content = read(json!([
            { "type": "text", "text": "look at " },
            { "type": "resource_link", "name": "a.rs", "uri": "file:///p/a.rs" },
            { "type": "resource", "resource": { "uri": "file:///p/b\"", "text": "fn b() {}" } },
        ]));
        let texts = [
            "look at ",
            "[a.rs](file:///p/a.rs)",
            "<resource uri=\"file:///p/b%22\">\nfn b() {}\n</resource>",
        ];
        assert_eq!(content, Ok(texts.map(ContentBlock::text).to_vec()));
    }

    #[test]
    fn a_block_that_is_not_taken_refuses_the_whole_prompt_and_is_named() {
        let image = json!({ "type": "image", "data": "", "mimeType": "image/png" });
        let audio = json!({ "type": "audio", "data": "", "mimeType": "audio/wav" });
        let blob = json!({ "type": "resource", "resource": { "uri": "x:y", "blob": "AA==" } });
        for (block, kind) in [
            (image, "images"),
            (audio, "audio"),
            (blob, "binary resources"),
        ] {
            let refused = read(json!([{ "type": "text", "text": "see" }, block]));
            assert_eq!(
                refused,
                Err(format!("prompt[1]: this agent takes no {kind}"))
            );
        }
    }

    #[test]
    fn a_prompt_that_says_nothing_is_refused() {
        for blocks in [json!([]), json!([{ "type": "text", "text": " \n\t" }])] {
            assert_eq!(read(blocks), Err("the prompt is empty".to_owned()));
        }
    }

    #[test]
    fn a_folder_is_the_same_however_it_is_spelled() {
        let session = Some("/work/project/");
        for asked in ["/work/project", "/work//./project/", "/work/x/../project"] {
            assert_eq!(same_cwd(Path::new(asked), session), Ok(()), "{asked}");
        }
        let refused = same_cwd(Path::new("/work"), session).unwrap_err();
        insta::assert_snapshot!(refused, @r#"the session works in "/work/project/", not in "/work""#);
        let refused = same_cwd(Path::new("/work"), None).unwrap_err();
        insta::assert_snapshot!(refused, @r#"the session works in no folder, not in "/work""#);
    }

    #[test]
    fn a_relative_folder_is_refused() {
        for path in ["", ".", "work", "../work"] {
            assert!(cwd(Path::new(path)).is_err(), "{path}");
        }
    }
}
