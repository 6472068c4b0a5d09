//! The commits of a webhook of a live call, compared with those of its writes alone.

use anyhow::Result;
use filrouge_engine::ResumeSession;
use filrouge_types::SessionId;

use super::{AppendItems, FinalizeTurn, begun, checkpoint, thought_item};
use crate::product::Product;
use crate::report::{Line, Section, Target};

pub(super) async fn measure(product: &Product, name: &str, section: &mut Section) -> Result<()> {
    let session = SessionId::new("call-of-commits")?;
    let number = || product.ledger.position().commit_no;
    // Before the counts begin, the session exists and has a checkpoint, as any call does after its first webhook.
    writes(product, &session, "before", None).await?;
    checkpoint(product, &product.caller, &session, None, false).await?;
    let begin = number();
    writes(product, &session, "alone", None).await?;
    let alone = number() - begin;
    let begin = number();
    let request = ResumeSession {
        create: false,
        ..ResumeSession::new("holder")
    };
    let (engine, caller) = (&product.engine, &product.caller);
    let fence = engine.calls.resume(caller, &session, request).await?.fence;
    writes(product, &session, "held", Some(fence)).await?;
    checkpoint(product, caller, &session, Some(fence), true).await?;
    let held = number() - begin;
    section.lines.push(Line::number(
        &format!("{name}: commits of a webhook beyond its three writes"),
        (held - alone) as f64,
        Target::AtMost(2.0),
        format!("{held}: resume, start, append, finalize, checkpoint with release; {alone} alone"),
    ));
    Ok(())
}

/// A turn in three writes.
async fn writes(
    product: &Product,
    session: &SessionId,
    request: &str,
    fence: Option<u64>,
) -> Result<()> {
    let (engine, caller) = (&product.engine, &product.caller);
    let mut start = begun(request)?;
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
        answer_neutral: begun(request)?.question_neutral,
        fence,
        ..FinalizeTurn::default()
    };
    engine
        .turns
        .finalize(caller, session.clone(), turn, finalize)
        .await?;
    Ok(())
}
