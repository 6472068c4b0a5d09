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

/// The default of `max_agent_turns`: the maximum number of consecutive messages of agents.
pub const MAX_AGENT_TURNS: u32 = 50;

/// The format of a team file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

impl Format {
    /// The format by the file's extension; without a known one, by the first character.
    pub fn detect(path: &Path, text: &str) -> Self {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        match extension.to_str() {
            Some("json") => Self::Json,
            Some("toml") => Self::Toml,
            _ if text.trim_start().starts_with('{') => Self::Json,
            _ => Self::Toml,
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
    members: Vec<Object<FileMember>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileMember {
    name: String,
    role: Option<String>,
    kind: FileMemberKind,
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
    cwd: Option<String>,
    prompt_template: Option<String>,
    timeout: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileMemberKind {
    Human,
    Agent,
}

impl Team {
    /// Reads a team file. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// `bad_request`: the file cannot be read, or is longer than [`TEAM_FILE_BYTES_MAX`]; else as [`Team::parse`].
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let displayed_path = path.display();
        let cannot_read = |reason: &dyn std::fmt::Display| {
            ErrorCode::BadRequest.failure(format!(
                "the team file {displayed_path} cannot be read: {reason}"
            ))
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
        Self::parse(&text, Format::detect(path, &text), folder).map_err(|mut failure| {
            failure.detail = format!("{displayed_path}: {}", failure.detail);
            failure
        })
    }

    /// Builds a team from a team file's text. Paths in it are relative to `folder`.
    ///
    /// # Errors
    /// `bad_request`: the text is not TOML or JSON, or has unknown fields; names the line. `invalid`: the described
    /// team cannot work; names the field. Neither shows values of `env`.
    pub fn parse(text: &str, format: Format, folder: &Path) -> Result<Self, Failure> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let file = match format {
            Format::Toml => from_toml(text)?,
            Format::Json => from_json(text)?,
        };
        check::build_team(file, folder)
    }
}

fn from_toml(text: &str) -> Result<TeamFile, Failure> {
    let deserializer = toml::Deserializer::parse(text)
        .map_err(|error| parse_failure(line_of(text, &error), "", error.message()))?;
    let read = serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        parse_failure(line_of(text, &error), &path, error.message())
    });
    read.map(|Object(file)| file)
}

/// The line of an error, from 1; `None` if the parser does not state its position.
fn line_of(text: &str, error: &toml::de::Error) -> Option<usize> {
    let before = text.get(..error.span()?.start)?;
    Some(before.matches('\n').count() + 1)
}

fn from_json(text: &str) -> Result<TeamFile, Failure> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = serde_path_to_error::deserialize(&mut deserializer);
    let Object(file) = read.map_err(|error| {
        let path = error.path().to_string();
        json_parse_failure(&path, &error.into_inner())
    })?;
    deserializer
        .end()
        .map_err(|error| json_parse_failure("", &error))?;
    Ok(file)
}

fn json_parse_failure(path: &str, error: &serde_json::Error) -> Failure {
    let message = error.to_string();
    let location = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&location).unwrap_or(&message);
    parse_failure((error.line() > 0).then(|| error.line()), path, message)
}

/// The failure with a parser's message, its line and the field. For `env` the message is replaced, because the parser
/// may quote values, which may be secrets.
fn parse_failure(line: Option<usize>, path: &str, message: &str) -> Failure {
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
