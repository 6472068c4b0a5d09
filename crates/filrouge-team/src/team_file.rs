//! The team file: TOML or JSON, fully checked before anything starts (DESIGN §11).

mod check;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use filrouge_types::{ErrorCode, Failure, Object};
use serde::Deserialize;

use crate::team::Team;

/// The largest team file, in bytes.
pub const TEAM_FILE_BYTES_MAX: u64 = 1 << 20;

/// The default of `max_agent_turns`: how many messages of agents may follow one another.
pub const MAX_AGENT_TURNS: u32 = 50;

/// The format of a team file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

impl Form {
    /// The format by the file's extension; without a known one, by the first character.
    #[must_use]
    pub fn of(path: &Path, text: &str) -> Self {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        if extension == "json" {
            Self::Json
        } else if extension == "toml" || !text.trim_start().starts_with('{') {
            Self::Toml
        } else {
            Self::Json
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TeamFile {
    name: String,
    description: Option<String>,
    task: Option<String>,
    max_agent_turns: Option<u32>,
    #[serde(default)]
    members: Vec<Object<MemberFile>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemberFile {
    name: String,
    role: Option<String>,
    kind: Kind,
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
    cwd: Option<String>,
    prompt_template: Option<String>,
    timeout: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Human,
    Agent,
}

impl Team {
    /// Reads a team file. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// `bad_request`: the file cannot be read, or is longer than [`TEAM_FILE_BYTES_MAX`]; else as [`Team::of`].
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let cannot_read = |why: &dyn std::fmt::Display| {
            Failure::new(
                ErrorCode::BadRequest,
                format!("the team file {shown} cannot be read: {why}"),
            )
        };
        let absolute = std::path::absolute(path).map_err(|e| cannot_read(&e))?;
        let file = std::fs::File::open(&absolute).map_err(|e| {
            cannot_read(&e).with_hint("name a team file; examples/teams has some to begin with")
        })?;
        let mut text = String::new();
        let read = file
            .take(TEAM_FILE_BYTES_MAX + 1)
            .read_to_string(&mut text)
            .map_err(|e| cannot_read(&e))?;
        if read as u64 > TEAM_FILE_BYTES_MAX {
            return Err(cannot_read(&"it has more than 1 MiB"));
        }
        let folder = absolute.parent().unwrap_or(&absolute);
        Self::of(&text, Form::of(path, &text), folder).map_err(|mut failure| {
            failure.detail = format!("{shown}: {}", failure.detail);
            failure
        })
    }

    /// Builds a team from a team file's text. Paths in it are relative to `folder`.
    ///
    /// # Errors
    /// `bad_request`: the text is not TOML or JSON, or has unknown fields; names the line. `invalid`: the described
    /// team cannot work; names the field. Neither shows values of `env`.
    pub fn of(text: &str, form: Form, folder: &Path) -> Result<Self, Failure> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let file = match form {
            Form::Toml => from_toml(text)?,
            Form::Json => from_json(text)?,
        };
        check::team(file, folder)
    }
}

fn from_toml(text: &str) -> Result<TeamFile, Failure> {
    let deserializer = toml::Deserializer::parse(text)
        .map_err(|error| unreadable(line_of(text, &error), "", error.message()))?;
    let read = serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        unreadable(line_of(text, &error), &path, error.message())
    });
    read.map(|Object(file)| file)
}

/// The line of an error, from 1; `None` if the parser does not state its place.
fn line_of(text: &str, error: &toml::de::Error) -> Option<usize> {
    let before = text.get(..error.span()?.start)?;
    Some(before.matches('\n').count() + 1)
}

fn from_json(text: &str) -> Result<TeamFile, Failure> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = serde_path_to_error::deserialize(&mut deserializer);
    let Object(file) = read.map_err(|error| {
        let path = error.path().to_string();
        unreadable_json(&path, &error.into_inner())
    })?;
    deserializer
        .end()
        .map_err(|error| unreadable_json("", &error))?;
    Ok(file)
}

fn unreadable_json(path: &str, error: &serde_json::Error) -> Failure {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&place).unwrap_or(&message);
    unreadable((error.line() > 0).then(|| error.line()), path, message)
}

/// The failure with a parser's message, its line and the field. For `env` the message is replaced, because the parser
/// may quote values, which may be secrets.
fn unreadable(line: Option<usize>, path: &str, message: &str) -> Failure {
    let line = line.map_or_else(String::new, |line| format!("line {line}: "));
    let path = path.trim_end_matches('.');
    let field = if path.is_empty() {
        String::new()
    } else {
        format!("{path}: ")
    };
    let message = if path.contains(".env") {
        "a table of texts is wanted"
    } else {
        message.trim_end()
    };
    let failure = Failure::new(ErrorCode::BadRequest, format!("{line}{field}{message}"));
    failure.with_hint("the fields of a team file are listed in examples/teams/README.md")
}

#[cfg(test)]
mod tests;
