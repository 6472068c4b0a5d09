//! How many commits one webhook of a live call costs (resume, a turn's three writes, checkpoint), compared with the
//! same turn written without a lease.

use anyhow::Result;
use filrouge_engine::ResumeSession;
use filrouge_types::SessionId;

use super::{AppendItems, FinalizeTurn, save_checkpoint, short_turn, thought_item};
use crate::product::Product;
use crate::report::{Line, Section, Target};

pub(super) async fn measure(product: &Product, name: &str, section: &mut Section) -> Result<()> {
    let session = SessionId::new("call-of-commits")?;
    let commit_count = || product.ledger.position().commit_count();
    // The first webhook of a call creates the session and its first checkpoint; a later webhook is measured.
    write_turn(product, &session, "before", None).await?;
    save_checkpoint(product, &product.caller, &session, None, false).await?;
    let before = commit_count();
    write_turn(product, &session, "alone", None).await?;
    let unleased = commit_count() - before;
    let before = commit_count();
    let request = ResumeSession {
        create: false,
        ..ResumeSession::new("holder")
    };
    let (engine, caller) = (&product.engine, &product.caller);
    let fence = engine.calls.resume(caller, &session, request).await?.fence;
    write_turn(product, &session, "held", Some(fence)).await?;
    save_checkpoint(product, caller, &session, Some(fence), true).await?;
    let leased = commit_count() - before;
    section.lines.push(Line::number(
        &format!("{name}: commits of a webhook beyond its three writes"),
        (leased - unleased) as f64,
        Target::AtMost(2.0),
        format!(
            "{leased}: resume, start, append, finalize, checkpoint with release; {unleased}: the writes alone"
        ),
    ));
    Ok(())
}

/// Writes a turn in three steps: start, append, finalize.
async fn write_turn(
    product: &Product,
    session: &SessionId,
    request: &str,
    fence: Option<u64>,
) -> Result<()> {
    let (engine, caller) = (&product.engine, &product.caller);
    let mut start = short_turn(request)?;
    start.fence = fence;
    let turn = engine.turns.start(caller, session.clone(), start).await?;
    let turn = turn.value.turn_id;
    let append = AppendItems {
        items: vec![thought_item("le créneau de 10 h 30")],
        expected_seq: None,
        fence,
        release: false,
    };
    engine
        .turns
        .append(caller, session.clone(), turn, append)
        .await?;
    let finalize = FinalizeTurn {
        answer_neutral: short_turn(request)?.question_neutral,
        fence,
        ..FinalizeTurn::default()
    };
    engine
        .turns
        .finalize(caller, session.clone(), turn, finalize)
        .await?;
    Ok(())
}
