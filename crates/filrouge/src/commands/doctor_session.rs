//! `filrouge doctor session ID`: the exact state of a session at the moment of a failure. Exit 0 when nothing is wrong
//! with it, 1 when something is.

use std::process::ExitCode;

use filrouge_engine::diagnosis::Diagnosis;
use filrouge_engine::{Caller, Engine};
use filrouge_types::SessionId;
use serde::Serialize;

use crate::cli::DoctorSession;
use crate::config::Config;
use crate::exit::{code, parsed};
use crate::open::{Need, with};
use crate::output::show;

mod call;
mod restored;
mod text;

pub(super) use call::Call;
use restored::Restored;

/// The diagnosis with what a restore would send.
#[derive(Serialize)]
struct State {
    ok: bool,
    #[serde(flatten)]
    diagnosis: Diagnosis,
    #[serde(flatten)]
    call: Call,
    restore: Vec<Restored>,
}

pub(super) async fn run(config: &Config, asked: &DoctorSession) -> anyhow::Result<ExitCode> {
    let id: SessionId = parsed(&asked.id)?;
    let state = with(config, Need::Existing, async |opened, caller| {
        look(&opened.engine, caller, &id, asked).await
    });
    let state = state.await?;
    show(config.json, &state, |out| text::write(out, &state))?;
    Ok(code(state.ok))
}

async fn look(
    engine: &Engine,
    caller: &Caller,
    id: &SessionId,
    asked: &DoctorSession,
) -> anyhow::Result<State> {
    let mut diagnosis = engine.context.diagnose(caller, id, asked.items).await?;
    let (restore, call) = if diagnosis.session.is_some() {
        let call = Call::of(engine, caller, id).await?;
        let restore = restored::all(engine, caller, id, asked.format).await;
        (restore, call)
    } else {
        (Vec::new(), Call::default())
    };
    restored::tell(&mut diagnosis, &restore);
    Ok(State {
        ok: diagnosis.is_well() && call.is_well() && restore.iter().all(Restored::is_well),
        diagnosis,
        call,
        restore,
    })
}
