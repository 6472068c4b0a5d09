//! `filrouge redact SESSION (--turn ID | --seq N|N-M …) --reason TEXT`: erases contents and prints a receipt.

use std::io::Write;

use filrouge_engine::StoreReceipt;
use filrouge_engine::caller::Permission;
use filrouge_engine::scopes::HotReceipt;
use filrouge_store::command::RedactionTarget;
use filrouge_store::record::Seqs;
use filrouge_types::{SessionId, TurnId};
use serde_json::json;

use crate::cli::Redact;
use crate::config::Config;
use crate::exit::{Usage, parse};
use crate::open::{IfMissing, Index, open, operator, refuse_unverified};
use crate::output::show;
use crate::team::{rewrite_snapshot_files, snapshot_file_error};

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
    let caller = operator(config);
    let redacted = opened
        .engine
        .erasure
        .redact(&caller, session.clone(), target, &args.reason)
        .await;
    let scope = caller.scope(Permission::Redact)?;
    let stores = opened.engine.erasure.store_receipts(&scope, &session);
    let rewritten = match &redacted {
        Ok(_) => rewrite_snapshot_files(config, &opened, &session).await,
        Err(_) => Ok(()),
    };
    opened.close().await;
    let redacted = redacted?.into_value();
    let ranges: Vec<_> = redacted.seqs.ranges().map(|(a, b)| [a, b]).collect();
    let (seq, at) = (redacted.redaction_seq, redacted.at);
    let output = json!({
        "session_id": session, "turn_id": redacted.turn.map(|t| t.turn_id), "seqs": ranges,
        "redaction_seq": seq, "at": at, "replayed": redacted.replayed, "stores": stores,
    });
    show(config.json, &output, |out| {
        let range = |[a, b]: &[u64; 2]| match a == b {
            true => a.to_string(),
            false => format!("{a}-{b}"),
        };
        let seqs = ranges.iter().map(range).collect::<Vec<_>>().join(" ");
        let outcome = match redacted.replayed {
            true => "was redacted before",
            false => "redacted",
        };
        let stores = stores_text(&stores);
        writeln!(
            out,
            "{outcome}: session {session}, seqs {seqs}, by the redaction at seq {seq}, {at}{stores}"
        )
    })?;
    rewritten.map_err(|error| snapshot_file_error("redacted in the ledger", error))?;
    Ok(())
}

/// The stores' parts of a receipt as text: the status of the hot store, and where bytes may remain.
pub(super) fn stores_text(stores: &[StoreReceipt]) -> String {
    let mut text = String::new();
    for store in stores {
        if store.store == "hot" {
            text += &format!(", hot store: {}", store.status);
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
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) => ranges.push((first, last)),
            _ => return Err(invalid_seq(word)),
        }
        if Seqs::from_ranges(ranges.last().copied()).is_none() {
            return Err(invalid_seq(word));
        }
    }
    Seqs::from_ranges(ranges).ok_or_else(|| invalid_seq(&words.join(" ")))
}
