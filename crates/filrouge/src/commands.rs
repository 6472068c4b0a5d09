//! The commands, one file each.

use std::process::ExitCode;

use crate::cli::{Cli, Command, ImportSource};
use crate::config::Config;
use crate::exit::Usage;

mod anchor;
mod completions;
mod config_show;
mod doctor;
mod export;
mod import;
mod import_bundle;
mod keyring;
mod redact;
mod serve;
mod sessions_list;
mod sessions_show;
mod verify;
mod verify_bundle;

/// Runs what the command line says.
pub(crate) async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let listen = match &cli.command {
        Command::Serve { listen } => *listen,
        _ => None,
    };
    if let Command::Completions { shell } = cli.command {
        return completions::run(shell);
    }
    start_log(matches!(cli.command, Command::Serve { .. }));
    let config = Config::read(&cli.options, listen)?;
    match cli.command {
        Command::Serve { .. } => serve::run(&config).await,
        Command::Sessions(crate::cli::Sessions::List {
            project,
            limit,
            cursor,
        }) => sessions_list::run(&config, project, limit, cursor).await,
        Command::Sessions(crate::cli::Sessions::Show { id }) => {
            sessions_show::run(&config, &id).await
        }
        Command::Import {
            source: ImportSource::Bundle,
            path,
            public_key,
        } => import_bundle::run(&config, &path, public_key.as_deref()).await,
        Command::Import {
            source: ImportSource::Opencode,
            path,
            public_key,
        } => {
            if public_key.is_some() {
                return Err(Usage::new("--public-key is for bundles").into());
            }
            import::run(&config, &path).await
        }
        Command::Export { id, format } => export::run(&config, &id, format).await,
        Command::Verify {
            bundle: Some(path),
            public_key,
            ..
        } => verify_bundle::run(&path, public_key.as_deref(), config.json).await,
        Command::Verify { id, .. } => verify::run(&config, id).await,
        Command::Redact(what) => redact::run(&config, &what).await,
        Command::Doctor => doctor::run(&config).await,
        Command::Anchor(what) => anchor::run(&config, &what).await,
        Command::Keyring(what) => keyring::run(&config, &what),
        Command::Config(crate::cli::Config::Show) => config_show::run(&config),
        Command::Completions { shell } => completions::run(shell),
    }
}

/// Logs go to stderr: `FILROUGE_LOG` filters them, `FILROUGE_LOG_FORMAT=json` makes them JSON lines.
fn start_log(server: bool) {
    let default = if server { "info" } else { "warn" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("FILROUGE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    if std::env::var("FILROUGE_LOG_FORMAT").is_ok_and(|f| f == "json") {
        log.json().init();
    } else {
        log.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .init();
    }
}
