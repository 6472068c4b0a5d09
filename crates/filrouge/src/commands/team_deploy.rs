//! `filrouge team deploy FILE`

use std::io::{IsTerminal, Read};
use std::path::PathBuf;

use crate::cli::Deploy;
use crate::config::Config;
use crate::exit::{ExitCode, Usage, report};
use crate::open::{IfMissing, OpenStore, with};
use crate::team::{Deployment, OneShot, Start, exit_code, read_team, repl, run_one_shot};

/// The maximum number of bytes that are read from stdin: the limit of an item in the ledger.
const MESSAGE_BYTES_MAX: u64 = 16 << 20;

pub(super) async fn run(config: &Config, mut args: Deploy) -> anyhow::Result<ExitCode> {
    // In `--resume FILE`, the file is not an id.
    let file = args.file.take();
    let file = file.or_else(|| args.resume.as_mut()?.take().map(PathBuf::from));
    let file = file.ok_or_else(|| Usage::new("the team file is missing"))?;
    // Wrong usage is reported before anything is created.
    read_team(&file)?;
    let message = message_to_send(config, &args)?;
    let result = with(config, IfMissing::Create, async |opened, _| {
        deploy(config, opened, (file, args), message).await
    });
    match result.await {
        Ok(code) => Ok(ExitCode::from(code)),
        Err(error) => report_with_code(config, error),
    }
}

/// Prints a failure that has a special exit code, and returns the code. Returns any other failure unchanged.
pub(super) fn report_with_code(config: &Config, error: anyhow::Error) -> anyhow::Result<ExitCode> {
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
    opened: &OpenStore,
    (file, args): (PathBuf, Deploy),
    message: Option<String>,
) -> anyhow::Result<u8> {
    let deployment = Deployment::new(config, opened)?;
    let start = match (args.resume, args.new) {
        (Some(None), _) => Some(Start::Newest),
        (Some(Some(id)), _) => Some(Start::Session(id.into())),
        (None, true) => Some(Start::New),
        (None, false) => None,
    };
    let Some(text) = message else {
        return repl(&deployment, file, start).await;
    };
    let team = read_team(&file)?;
    let json = config.json;
    run_one_shot(&deployment, &team, OneShot { start, text, json }).await
}

/// The single message to send, or `None` for a conversation at a terminal. Fails without a message and without a
/// terminal, instead of waiting for a person who may be absent.
fn message_to_send(config: &Config, args: &Deploy) -> Result<Option<String>, Usage> {
    if matches!(&args.resume, Some(Some(id)) if id.is_empty()) {
        return Err(Usage::new("--resume= names no session")
            .with_hint("leave the = out for the newest one"));
    }
    let text = match &args.message {
        Some(text) => text.clone(),
        None if !std::io::stdin().is_terminal() => read_stdin()?,
        None if std::io::stdout().is_terminal() && !config.json => return Ok(None),
        None => {
            let detail = "there is no terminal for a conversation, and no message to send";
            return Err(
                Usage::new(detail).with_hint("give the message with --message, or on stdin")
            );
        }
    };
    if text.trim().is_empty() {
        return Err(Usage::new("the message is empty")
            .with_hint("give the message with --message, or on stdin"));
    }
    Ok(Some(text))
}

fn read_stdin() -> Result<String, Usage> {
    let mut bytes = Vec::new();
    let mut stdin = std::io::stdin().lock().take(MESSAGE_BYTES_MAX + 1);
    let read = stdin.read_to_end(&mut bytes);
    read.map_err(|e| Usage::new(format!("stdin cannot be read: {e}")))?;
    if bytes.len() as u64 > MESSAGE_BYTES_MAX {
        return Err(Usage::new("stdin has more than 16 MiB"));
    }
    let mut text = String::from_utf8(bytes).map_err(|_| Usage::new("stdin is not UTF-8"))?;
    text.truncate(text.trim_end().len());
    Ok(text)
}
