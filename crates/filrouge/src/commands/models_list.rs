//! `filrouge models list`

use std::io::Write;

use filrouge_search::embed::minilm::{DIMENSIONS, FILES, IS_BUILT_IN, NAME, State, state};
use serde_json::json;

use super::models_install::how_to_get;
use crate::config::Config;
use crate::output::{document, print, say};

pub(super) fn run(config: &Config) -> anyhow::Result<()> {
    let folder = &config.search.folder;
    let (word, wrong) = match state(folder) {
        State::Absent => ("absent", None),
        State::Installed => ("installed", None),
        State::Wrong(what) => ("wrong", Some(what)),
    };
    let kind = config.search.kind.as_str();
    if config.json {
        let files = FILES.map(|file| {
            json!({ "name": file.name, "bytes": file.bytes, "sha256": file.sha256, "package": file.package })
        });
        document(&json!({
            "embedder": kind,
            "models": [{
                "name": NAME, "kind": "minilm", "dimensions": DIMENSIONS, "built_in": IS_BUILT_IN,
                "folder": folder, "state": word, "wrong": wrong, "files": files,
            }],
        }))?;
        return Ok(());
    }
    print(|out| {
        let folder = folder.display();
        writeln!(
            out,
            "minilm  {NAME}  {DIMENSIONS} dimensions  {word}  {folder}"
        )
    })?;
    if let Some(what) = &wrong {
        say(format_args!("{what}"));
    }
    if word != "installed" {
        say(format_args!("install it: {}", how_to_get()));
    }
    if !IS_BUILT_IN {
        say("this filrouge was built without the feature minilm, and cannot use the model");
    }
    say(format_args!("search.embedder.kind is {kind}"));
    Ok(())
}
