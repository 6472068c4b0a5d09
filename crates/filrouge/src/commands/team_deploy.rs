//! `filrouge team deploy FILE`

use std::io::{IsTerminal, Read};
use std::process::ExitCode;

use crate::cli::Deploy;
use crate::config::Config;
use crate::exit::{Usage, report};
use crate::open::{Need, Opened, with};
use crate::team::{Desk, Once, Start, exit_code, once, read_team, repl};

/// Most bytes that stdin may say: what an item of the ledger holds.
const MESSAGE_BYTES: u64 = 16 << 20;

pub(super) async fn run(config: &Config, asked: Deploy) -> anyhow::Result<ExitCode> {
    // Wrong usage is told before anything is made.
    read_team(&asked.file)?;
    let said = said(config, &asked)?;
    let done = with(config, Need::Any, async |opened, _| {
        deploy(config, opened, asked, said).await
    });
    match done.await {
        Ok(code) => Ok(ExitCode::from(code)),
        Err(error) => refused(config, error),
    }
}

/// Reports a failure that has an exit code of its own.
pub(super) fn refused(config: &Config, error: anyhow::Error) -> anyhow::Result<ExitCode> {
    match exit_code(&error) {
        Some(code) => {
            report(&error, config.json);
            Ok(ExitCode::from(code))
        }
        None => Err(error),
    }
}

async fn deploy(
    config: &Config,
    opened: &Opened,
    asked: Deploy,
    said: Option<String>,
) -> anyhow::Result<u8> {
    let desk = Desk::new(config, opened)?;
    let start = match (asked.resume, asked.new) {
        (Some(None), _) => Some(Start::Newest),
        (Some(Some(id)), _) => Some(Start::Session(id.into())),
        (None, true) => Some(Start::New),
        (None, false) => None,
    };
    let Some(text) = said else {
        return repl(&desk, asked.file, start).await;
    };
    let team = read_team(&asked.file)?;
    let json = config.json;
    once(&desk, &team, Once { start, text, json }).await
}

/// What is to be said once; `None`: there is a terminal to talk at. Nobody is waited for who may not be there.
fn said(config: &Config, asked: &Deploy) -> Result<Option<String>, Usage> {
    if asked
        .resume
        .as_ref()
        .is_some_and(|id| id.as_deref() == Some(""))
    {
        return Err(Usage::new("--resume= names no session")
            .with_hint("leave the = out for the newest one"));
    }
    let text = match &asked.message {
        Some(text) => text.clone(),
        None if !std::io::stdin().is_terminal() => read_stdin()?,
        None if std::io::stdout().is_terminal() && !config.json => return Ok(None),
        None => {
            let what = "there is no terminal to talk at, and nothing to say";
            return Err(Usage::new(what).with_hint("say it with --message, or on stdin"));
        }
    };
    if text.trim().is_empty() {
        return Err(
            Usage::new("there is nothing to say").with_hint("say it with --message, or on stdin")
        );
    }
    Ok(Some(text))
}

fn read_stdin() -> Result<String, Usage> {
    let mut bytes = Vec::new();
    let mut stdin = std::io::stdin().lock().take(MESSAGE_BYTES + 1);
    let read = stdin.read_to_end(&mut bytes);
    read.map_err(|e| Usage::new(format!("stdin cannot be read: {e}")))?;
    if bytes.len() as u64 > MESSAGE_BYTES {
        return Err(Usage::new("stdin says more than 16 MiB"));
    }
    let mut text = String::from_utf8(bytes).map_err(|_| Usage::new("stdin is not UTF-8"))?;
    text.truncate(text.trim_end().len());
    Ok(text)
}
