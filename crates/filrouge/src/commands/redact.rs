//! `filrouge redact ID (--turn ID | --seq N|N-M …) --reason TEXT`: erases contents and prints a receipt.

use std::io::{self, IsTerminal, Write};

use filrouge_engine::caller::Permission;
use filrouge_engine::scopes::HotReceipt;
use filrouge_engine::{Leftovers, StoreReceipt};
use filrouge_store::command::RedactionTarget;
use filrouge_store::record::Seqs;
use filrouge_types::{Item, SessionId, TurnId};
use serde_json::json;

use super::sessions_show::item_line;
use crate::cli::Redact;
use crate::config::Config;
use crate::exit::{Usage, parse};
use crate::open::{IfMissing, Index, OpenStore, open, operator, refuse_unverified};
use crate::output::{ask_confirmation, printable, show};
use crate::projections::install;
use crate::team::{rewrite_snapshot_files, snapshot_file_error};

/// The maximum number of items that are shown before a redaction.
const SHOWN_ITEMS: usize = 50;

pub(super) async fn run(config: &Config, args: &Redact) -> anyhow::Result<()> {
    let session: SessionId = parse(&args.session)?;
    let target = match &args.target.turn {
        Some(id) => RedactionTarget::Turn(id.parse::<TurnId>().map_err(|e| {
            Usage::new(format!("--turn {id}: {e}"))
                .with_hint("`sessions show ID --json` shows turn ids")
        })?),
        None => RedactionTarget::Items(parse_seqs(&args.target.seq)?),
    };
    refuse_unverified(config)?;
    let opened = open(config, IfMissing::Fail, Index::IfExists).await?;
    let redacted = redact(config, args, &opened, (session, target)).await;
    opened.close().await;
    redacted
}

async fn redact(
    config: &Config,
    args: &Redact,
    opened: &OpenStore,
    (session, target): (SessionId, RedactionTarget),
) -> anyhow::Result<()> {
    install(config, &opened.engine)?;
    let (engine, caller) = (&*opened.engine, &operator(config));
    let erasure = &engine.erasure;
    let items = erasure.items_to_redact(caller, &session, &target).await?;
    let mut leftovers = Leftovers::find(engine, caller, &session, &items).await?;
    if args.consent.dry_run {
        let seqs: Vec<u64> = items.iter().map(|item| item.seq).collect();
        let names = leftovers.names();
        let output =
            json!({"session_id": session, "dry_run": true, "seqs": seqs, "still_in": names});
        return show(config.json, &output, |out| write_items(out, &items, &names));
    }
    let asks = !args.consent.yes && io::stdin().is_terminal();
    let no_terminal = "no terminal can ask for confirmation";
    if asks {
        write_items(&mut io::stderr().lock(), &items, &leftovers.names())?;
        let question = format!("Redact these items of session {session} for good?");
        if !ask_confirmation(&question, &["yes"], no_terminal)? {
            anyhow::bail!("nothing was redacted");
        }
    }
    let removes_title = leftovers.title
        && (args.with_title
            || (asks && ask_confirmation("Remove the title too?", &["yes"], no_terminal)?));
    // Nothing asks from here to the receipts, which clean the projections, once for items and title.
    let redacted = erasure
        .redact_in_ledger(caller, session.clone(), target, &args.reason)
        .await?
        .into_value();
    let title_removed = match removes_title {
        true => leftovers.remove_title(engine, caller, &session).await,
        false => Ok(()),
    };
    let scope = caller.scope(Permission::Redact)?;
    let stores = erasure.store_receipts(&scope, &session).await;
    let rewritten = rewrite_snapshot_files(config, opened, &session).await;
    let names = leftovers.names();
    let ranges: Vec<_> = redacted.seqs.ranges().map(|(a, b)| [a, b]).collect();
    let (seq, at) = (redacted.redaction_seq, redacted.at);
    let output = json!({
        "session_id": session, "turn_id": redacted.turn.map(|t| t.turn_id), "seqs": ranges,
        "redaction_seq": seq, "at": at, "replayed": redacted.replayed, "stores": stores, "still_in": names,
    });
    show(config.json, &output, |out| {
        let seqs = &redacted.seqs;
        let outcome = match redacted.replayed {
            true => "was redacted before",
            false => "redacted",
        };
        let stores = stores_text(&stores);
        writeln!(
            out,
            "{outcome}: session {session}, seqs {seqs}, by the redaction at seq {seq}, {at}{stores}"
        )?;
        write_leftovers(out, &names)
    })?;
    title_removed?;
    rewritten.map_err(|error| snapshot_file_error("redacted in the ledger", error))?;
    Ok(())
}

/// Writes the items that a redaction erases, and the fields that keep words of them.
fn write_items(out: &mut impl Write, items: &[Item], leftovers: &[&str]) -> io::Result<()> {
    for item in items.iter().take(SHOWN_ITEMS) {
        writeln!(out, "{}", item_line(item))?;
    }
    if items.len() > SHOWN_ITEMS {
        writeln!(out, "… and {} more", items.len() - SHOWN_ITEMS)?;
    }
    write_leftovers(out, leftovers)
}

/// Writes the names of the fields that keep words of the contents.
fn write_leftovers(out: &mut impl Write, names: &[&str]) -> io::Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "some of the words are still in: {}",
        printable(&names.join(", "))
    )?;
    writeln!(
        out,
        "--with-title also removes the title, `filrouge erase ID` the whole session"
    )
}

/// The stores' parts of a receipt as text: the status of the hot store, and where bytes may remain.
pub(super) fn stores_text(stores: &[StoreReceipt]) -> String {
    let mut text = String::new();
    for store in stores {
        if store.store == "hot" {
            text += &format!(", hot store: {}", store.status);
        }
        if let Some(name) = &store.name {
            text += &format!(", projection {name}: {}", store.status);
        }
        if store.status == HotReceipt::Unreachable.as_str() {
            text += "; repeat the command when it answers";
        }
        if let Some(remains) = store.remains {
            text += &format!("; bytes may remain {remains}");
        }
    }
    text
}

/// Parses the values of `--seq`: `N` and `N-M`.
fn parse_seqs(words: &[String]) -> Result<Seqs, Usage> {
    let invalid_seq = |word: &str| {
        Usage::new(format!("--seq {word}: not a seq or a range of seqs"))
            .with_hint("seqs count from 1, such as --seq 4 --seq 7-9")
    };
    let mut ranges = Vec::new();
    for word in words {
        ranges.push(Seqs::parse_range(word).ok_or_else(|| invalid_seq(word))?);
    }
    Seqs::from_ranges(ranges).ok_or_else(|| invalid_seq(&words.join(" ")))
}
