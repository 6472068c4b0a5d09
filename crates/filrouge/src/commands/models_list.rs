//! `filrouge models list`

use std::io::Write;

use filrouge_search::embed::minilm::{DIMENSIONS, FILES, IS_BUILT_IN, NAME, State, state};
use serde_json::json;

use super::models_install::download_commands;
use crate::config::Config;
use crate::output::{print, print_json, print_stderr};

pub(super) fn run(config: &Config) -> anyhow::Result<()> {
    let folder = &config.search.folder;
    let (state_name, problem) = match state(folder) {
        State::Absent => ("absent", None),
        State::Installed => ("installed", None),
        State::Invalid(problem) => ("wrong", Some(problem)),
    };
    let kind = config.search.kind.as_str();
    if config.json {
        let files = FILES.map(|file| {
            json!({ "name": file.name, "bytes": file.bytes, "sha256": file.sha256, "package": file.package })
        });
        return print_json(&json!({
            "embedder": kind,
            "models": [{
                "name": NAME, "kind": "minilm", "dimensions": DIMENSIONS, "built_in": IS_BUILT_IN,
                "folder": folder, "state": state_name, "wrong": problem, "files": files,
            }],
        }));
    }
    print(|out| {
        let folder = folder.display();
        writeln!(
            out,
            "minilm  {NAME}  {DIMENSIONS} dimensions  {state_name}  {folder}"
        )
    })?;
    if let Some(problem) = &problem {
        print_stderr(format_args!("{problem}"));
    }
    if state_name != "installed" {
        print_stderr(format_args!("install it: {}", download_commands()));
    }
    if !IS_BUILT_IN {
        print_stderr(
            "this filrouge was built without the feature minilm, and cannot use the model",
        );
    }
    print_stderr(format_args!("search.embedder.kind is {kind}"));
    Ok(())
}
