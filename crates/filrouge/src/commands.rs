//! The commands, one file each.

#[cfg(feature = "otel")]
use std::io::Write;

use filrouge_sources::programs;

use crate::cli::{
    Cli, Command, ConfigCommand, Doctor, Export, ExportFormat, Import, IndexCommand, Mcp, Models,
    Project, Sessions, Stats, Team, TeamSnapshots,
};
use crate::config::Config;
use crate::exit::{ExitCode, Usage};

mod anchor;
mod audit;
mod completions;
mod config_show;
mod copy;
mod doctor;
mod doctor_hot;
mod doctor_search;
mod doctor_session;
mod doctor_spool;
mod doctor_webhooks;
mod erase;
mod export;
mod import;
mod import_bundle;
mod index_ledger;
mod index_status;
mod index_update;
mod keyring;
mod keys;
mod lineage;
mod mcp;
mod mcp_install;
mod migrate;
mod models_check;
mod models_install;
mod models_list;
mod named_session;
mod project_export;
mod project_rebuild;
mod project_retry;
mod project_run;
mod project_status;
mod project_verify;
mod redact;
mod search;
mod serve;
mod sessions_list;
mod sessions_show;
mod sessions_tail;
mod source;
mod source_export;
mod source_lineage;
mod source_list;
mod source_overview;
mod source_show;
mod source_stats;
mod stats;
mod stats_kpi;
mod team_deploy;
mod team_snapshots_export;
mod team_snapshots_import;
mod team_snapshots_list;
mod team_snapshots_show;
mod ui;
mod verify;
mod verify_bundle;

/// Runs the command that the command line names.
pub(crate) async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let listen = match &cli.command {
        Command::Serve { listen, .. } => *listen,
        _ => None,
    };
    if let Command::Completions { shell } = cli.command {
        completions::run(shell)?;
        return Ok(ExitCode::SUCCESS);
    }
    start_log(matches!(cli.command, Command::Serve { .. }));
    let config = Config::read(&cli.options, listen)?;
    // Most commands only succeed or fail; the others report a finding by their exit code.
    match cli.command {
        Command::Serve { sources, .. } => serve::run(&config, &sources).await?,
        Command::Ui(args) => ui::run(&config, &args).await?,
        Command::Sessions(command) => sessions(&config, command).await?,
        Command::Search(args) => search::run(&config, args).await?,
        Command::Index(command) => match command {
            IndexCommand::Status(sources) => index_status::run(&config, &sources).await?,
            IndexCommand::Update(sources) => {
                return index_update::run(&config, &sources, false).await;
            }
            IndexCommand::Rebuild(sources) => {
                return index_update::run(&config, &sources, true).await;
            }
        },
        Command::Mcp {
            sources,
            listen,
            command,
        } => match command {
            Some(Mcp::Install(args)) => mcp_install::run(&config, &cli.options, &args)?,
            None => mcp::run(&config, &sources.sources, listen).await?,
        },
        Command::Import(args) => import(&config, args).await?,
        Command::Export(args) => export(&config, args).await?,
        Command::Verify {
            bundle: Some(path),
            public_key,
            ..
        } => return verify_bundle::run(&path, public_key.as_deref(), config.json).await,
        Command::Verify { id, witness, .. } => {
            return verify::run(&config, id, witness.as_deref()).await;
        }
        Command::Lineage {
            id,
            sources,
            unmasked,
        } => match sources.is_ledger_only() {
            true => {
                refuse_for_ledger(&[("--unmasked", unmasked)])?;
                lineage::run(&config, &id).await?;
            }
            false => source_lineage::run(&config, id, &sources, !unmasked).await?,
        },
        Command::Stats(args) => statistics(&config, args).await?,
        Command::Audit(args) => audit::run(&config, args).await?,
        Command::Redact(args) => redact::run(&config, &args).await?,
        Command::Erase(args) => erase::run(&config, &args).await?,
        Command::Team(command) => return team(&config, command).await,
        Command::Project(command) => match command {
            Project::Run(args) => return project_run::run(&config, &args).await,
            Project::Rebuild { name } => project_rebuild::run(&config, &name).await?,
            Project::Verify { name } => return project_verify::run(&config, &name).await,
            Project::Retry { name } => project_retry::run(&config, &name).await?,
            Project::Export(args) => {
                return project_export::run(&config, &args, cli.options.tenant.is_some()).await;
            }
            Project::Status => return project_status::run(&config).await,
        },
        Command::Doctor { command, sessions } => {
            return match command {
                None => doctor::run(&config, sessions).await,
                Some(Doctor::Webhooks(args)) => doctor_webhooks::run(&config, &args).await,
                Some(Doctor::Spool(args)) => doctor_spool::run(&config, &args),
                Some(Doctor::Session(args)) => doctor_session::run(&config, &args).await,
            };
        }
        Command::Anchor(command) => return anchor::run(&config, &command).await,
        Command::Keyring(command) => keyring::run(&config, &command)?,
        Command::Keys(command) => keys::run(&config, command).await?,
        Command::Copy { from, to } => return copy::run(&config, &from, &to).await,
        Command::Migrate(args) => migrate::run(&config, &args)?,
        Command::Models(command) => match command {
            Models::Install(args) => models_install::run(&config, &args)?,
            Models::List => models_list::run(&config)?,
            Models::Check { texts } => models_check::run(&config, &texts)?,
        },
        Command::Config(ConfigCommand::Show) => config_show::run(&config)?,
        Command::Completions { shell } => completions::run(shell)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a command about sessions. If `--source` names another program's history, the command queries all named
/// histories in one neutral form. Otherwise it queries the ledger directly, which stores more about its sessions than
/// the neutral form has.
async fn sessions(config: &Config, command: Sessions) -> anyhow::Result<()> {
    match command {
        Sessions::List(args) if args.sources.is_ledger_only() => {
            refuse_for_ledger(&[("--unmasked", args.unmasked)])?;
            sessions_list::run(config, args).await
        }
        Sessions::List(args) => source_list::run(config, args).await,
        Sessions::Show(args) if args.sources.is_ledger_only() => {
            let only_other_sources = [
                ("--max-chars", args.max_chars.is_some()),
                ("--cursor", args.cursor.is_some()),
                ("--unmasked", args.unmasked),
            ];
            refuse_for_ledger(&only_other_sources)?;
            sessions_show::run(config, &args.id).await
        }
        Sessions::Show(args) => source_show::run(config, args).await,
        Sessions::Ids { start } => completions::list_ids(config, start).await,
        Sessions::Tail { id, after, drafts } => {
            sessions_tail::run(config, &id, after, drafts).await
        }
    }
}

/// Refuses options that do not apply to the ledger. `options` has each option's name, and whether it was given.
fn refuse_for_ledger(options: &[(&str, bool)]) -> Result<(), Usage> {
    match options.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(source::ledger_option_error(option)),
        None => Ok(()),
    }
}

async fn team(config: &Config, command: Team) -> anyhow::Result<ExitCode> {
    match command {
        Team::Deploy(args) => return team_deploy::run(config, args).await,
        Team::Snapshots(TeamSnapshots::List { team }) => {
            team_snapshots_list::run(config, team.as_deref())?;
        }
        Team::Snapshots(TeamSnapshots::Show { path }) => team_snapshots_show::run(config, &path)?,
        Team::Snapshots(TeamSnapshots::Import { path, team }) => {
            return team_snapshots_import::run(config, &path, &team).await;
        }
        Team::Snapshots(TeamSnapshots::Export { id, to }) => {
            team_snapshots_export::run(config, &id, to).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn import(config: &Config, args: Import) -> anyhow::Result<()> {
    let Some(program) = programs::named(&args.source) else {
        let Some(path) = args.path else {
            return Err(Usage::new("import bundle: name the bundle's file").into());
        };
        return import_bundle::run(config, &path, args.public_key.as_deref()).await;
    };
    if args.public_key.is_some() {
        return Err(Usage::new("--public-key is for bundles").into());
    }
    import::run(config, program, args.path).await
}

async fn export(config: &Config, args: Export) -> anyhow::Result<()> {
    if config.json && !matches!(args.format, ExportFormat::Json) {
        let detail = "--json and another --format do not go together";
        return Err(Usage::new(detail).with_hint("leave one of them out").into());
    }
    if !args.sources.is_ledger_only() {
        return source_export::run(config, args).await;
    }
    refuse_for_ledger(&[("--unmasked", args.unmasked)])?;
    export::run(config, &args.id, args.format).await
}

async fn statistics(config: &Config, args: Stats) -> anyhow::Result<()> {
    let is_ledger = args.sources.is_ledger_only();
    match args.id {
        Some(id) if is_ledger => {
            refuse_for_ledger(&[("--unmasked", args.unmasked)])?;
            stats::run(config, &id).await
        }
        Some(id) => source_stats::run(config, id, &args.sources, !args.unmasked).await,
        None if args.kpi => stats_kpi::run(config, &args).await,
        None if args.sources.sources.is_empty() => Err(Usage::new(
            "stats: name a session, or --kpi, or --source for whole histories",
        )
        .with_hint("filrouge stats ID · filrouge stats --kpi · filrouge stats --source opencode")
        .into()),
        None => source_overview::run(config, args).await,
    }
}

/// Starts the log on stderr, unless this process has one. `FILROUGE_LOG` filters its lines: by default a server logs
/// from level info on, any other command from level warn on. `FILROUGE_LOG_FORMAT=json` makes them JSON lines.
///
/// Other crates log only warnings and errors, even if the filter selects more: their detailed logs contain headers and
/// bytes, which include credentials.
pub(crate) fn start_log(is_server: bool) {
    use tracing_subscriber::filter::FilterExt;
    use tracing_subscriber::layer::{Layer, SubscriberExt};
    use tracing_subscriber::util::SubscriberInitExt;
    let default = if is_server { "info" } else { "warn" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("FILROUGE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let is_own_or_warning = tracing_subscriber::filter::filter_fn(|metadata| {
        metadata.target().starts_with("filrouge") || *metadata.level() <= tracing::Level::WARN
    });
    let line_layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false);
    let line_layer = if std::env::var("FILROUGE_LOG_FORMAT").is_ok_and(|f| f == "json") {
        line_layer.json().boxed()
    } else {
        line_layer
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .boxed()
    };
    let log =
        tracing_subscriber::registry().with(line_layer.with_filter(filter.and(is_own_or_warning)));
    #[cfg(feature = "otel")]
    let log = log.with(span_layer(is_server));
    // It fails if the process has a log already.
    let _ = log.try_init();
    #[cfg(not(feature = "otel"))]
    if is_server && std::env::var_os("FILROUGE_OTLP_ENDPOINT").is_some_and(|e| !e.is_empty()) {
        tracing::warn!(
            "FILROUGE_OTLP_ENDPOINT is set, and this filrouge was built without the feature otel: no spans are sent"
        );
    }
}

/// The layer that exports a server's spans, if `FILROUGE_OTLP_ENDPOINT` is set; `None` for any other command.
#[cfg(feature = "otel")]
fn span_layer<S>(is_server: bool) -> Option<impl tracing_subscriber::Layer<S>>
where
    S: tracing::Subscriber + for<'span> tracing_subscriber::registry::LookupSpan<'span>,
{
    let endpoint = std::env::var("FILROUGE_OTLP_ENDPOINT").ok()?;
    if !is_server || endpoint.is_empty() {
        return None;
    }
    match crate::telemetry::layer(&endpoint) {
        Ok(layer) => Some(layer),
        Err(error) => {
            // The log is not started yet, so the error is written directly.
            let _ = writeln!(std::io::stderr(), "FILROUGE_OTLP_ENDPOINT: {error:#}");
            None
        }
    }
}
