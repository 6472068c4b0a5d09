//! `filrouge redact SESSION (--turn ID | --seq N|N-M …) --reason TEXT`: erases contents and prints a receipt.

use std::io::Write;

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
    let (tiers, scope) = (opened.engine.tiers(), caller.scope(Permission::Redact)?);
    let hot = tiers.map(|tiers| tiers.receipt(&scope, &session));
    let rewritten = match &redacted {
        Ok(_) => rewrite_snapshot_files(config, &opened, &session).await,
        Err(_) => Ok(()),
    };
    opened.close().await;
    let redacted = redacted?.into_value();
    let hot = hot.map(HotReceipt::as_str);
    let ranges: Vec<_> = redacted.seqs.ranges().map(|(a, b)| [a, b]).collect();
    let (seq, at) = (redacted.redaction_seq, redacted.at);
    let store = |store: &str, status: &str| json!({ "store": store, "status": status });
    let mut stores = vec![store("ledger", "erased")];
    stores.extend(hot.map(|status| store("hot", status)));
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
        let hot = hot.map_or_else(String::new, hot_text);
        writeln!(
            out,
            "{outcome}: session {session}, seqs {seqs}, by the redaction at seq {seq}, {at}{hot}"
        )
    })?;
    rewritten.map_err(|error| snapshot_file_error("redacted in the ledger", error))?;
    Ok(())
}

/// The hot store's part of the receipt, as text.
pub(super) fn hot_text(status: &str) -> String {
    let retry_hint = match status == HotReceipt::Unreachable.as_str() {
        true => "; repeat the command when it answers",
        false => "",
    };
    format!(", hot store: {status}{retry_hint}")
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
