//! `filrouge ui`

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use filrouge_engine::spool::SpoolOptions;
use filrouge_server::McpSettings;

use super::serve;
use crate::cli::Ui;
use crate::config::sources::{SourceRequest, histories};
use crate::config::{Config, HotConfig, HotUrl, StoreUrl};
use crate::open::{missing_store, store_exists};
use crate::output::print_stderr;

/// Serves the pages over the store, if it exists, and over other programs' histories, and opens them in a browser.
pub(super) async fn run(config: &Config, args: &Ui) -> anyhow::Result<()> {
    let found = histories(config, &args.sources.sources)?;
    let has_store = found.ledger.is_some() && store_exists(config)?;
    if found.ledger == Some(SourceRequest::Named) && !has_store {
        return Err(missing_store(&config.store).into());
    }
    let mut config = Config {
        listen: args.listen,
        // A server that runs beside this command does this work.
        webhooks: Vec::new(),
        projections: Vec::new(),
        spool: SpoolOptions {
            bytes: 0,
            ..config.spool.clone()
        },
        ..config.clone()
    };
    if !has_store {
        show_histories_only(&mut config);
    }
    let mcp_settings = McpSettings {
        library: found.library(),
        hosts: config.mcp_hosts.clone(),
    };
    let opens = !args.no_open;
    serve::serve_histories(&config, mcp_settings, |address| {
        if opens {
            open_browser(format!("http://{address}/"));
        }
    })
    .await
}

/// Replaces the store by an empty one in memory, so that none is created. It has no keys, and needs no sign-in.
fn show_histories_only(config: &mut Config) {
    config.store = StoreUrl::Memory;
    config.distribute = false;
    config.hot = HotConfig {
        url: HotUrl::Memory,
        ..config.hot.clone()
    };
    config.access = config.access.without_issuer();
}

/// Opens an address in the user's browser. If this fails, a notice asks the user to open the printed address.
fn open_browser(address: String) {
    let program = match cfg!(target_os = "macos") {
        true => "open",
        false => "xdg-open",
    };
    // The browser may run as long as its program. It is in a group of its own, so that Ctrl-C ends only the server.
    std::thread::spawn(move || {
        let status = Command::new(program)
            .arg(address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .status();
        if !status.is_ok_and(|status| status.success()) {
            print_stderr("no browser was opened: open the address yourself");
        }
    });
}
