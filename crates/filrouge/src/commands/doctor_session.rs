//! `filrouge doctor session ID`: the exact state of a session, for example after a failure. Exit code 1 when something
//! is wrong with the session, else 0.

use filrouge_engine::diagnosis::Diagnosis;
use filrouge_engine::{Caller, Engine};
use filrouge_types::SessionId;
use serde::Serialize;

use super::named_session::in_ledger;
use crate::cli::DoctorSession;
use crate::config::Config;
use crate::exit::{ExitCode, code, parse};
use crate::open::{IfMissing, with};
use crate::output::show;

mod call;
mod restored;
mod text;

pub(super) use call::CallState;
use restored::Restored;

/// The diagnosis, and the contexts that a restore would send.
#[derive(Serialize)]
struct State {
    ok: bool,
    #[serde(flatten)]
    diagnosis: Diagnosis,
    #[serde(flatten)]
    call: CallState,
    restore: Vec<Restored>,
}

pub(super) async fn run(config: &Config, args: &DoctorSession) -> anyhow::Result<ExitCode> {
    let id: SessionId = parse(&args.id)?;
    let state = with(config, IfMissing::Fail, async |opened, caller| {
        let id = in_ledger(&opened.engine, caller, id).await?;
        diagnose(&opened.engine, caller, &id, args).await
    });
    let state = state.await?;
    show(config.json, &state, |out| text::write(out, &state))?;
    Ok(code(state.ok))
}

async fn diagnose(
    engine: &Engine,
    caller: &Caller,
    id: &SessionId,
    args: &DoctorSession,
) -> anyhow::Result<State> {
    let mut diagnosis = engine.context.diagnose(caller, id, args.items).await?;
    let (restore, call) = if diagnosis.session.is_some() {
        let call = CallState::read(engine, caller, id).await?;
        let restore = restored::restore_all(engine, caller, id, args.format).await;
        (restore, call)
    } else {
        (Vec::new(), CallState::default())
    };
    restored::add_findings(&mut diagnosis, &restore);
    Ok(State {
        ok: diagnosis.has_no_problem() && call.is_well() && restore.iter().all(Restored::is_well),
        diagnosis,
        call,
        restore,
    })
}
