//! `filrouge doctor session ID`: the exact state of a session at the moment of a failure. Exit 0 when nothing is wrong
//! with it, 1 when something is.

use std::process::ExitCode;

use filrouge_engine::diagnosis::Diagnosis;
use filrouge_types::{IdError, SessionId};
use serde::Serialize;

use crate::cli::DoctorSession;
use crate::config::Config;
use crate::exit::Usage;
use crate::open::{Need, open, operator};
use crate::output::document;

mod call;
mod restored;
mod text;

use call::Call;
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
    let wrong = |e: IdError| Usage::new(e.to_string());
    let id: SessionId = asked.id.parse().map_err(wrong)?;
    let opened = open(config, Need::Existing).await?;
    let state = look(config, &opened.engine, &id, asked).await;
    opened.close().await;
    let state = state?;
    if config.json {
        document(&state)?;
    } else {
        text::print(&state)?;
    }
    Ok(if state.ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn look(
    config: &Config,
    engine: &filrouge_engine::Engine,
    id: &SessionId,
    asked: &DoctorSession,
) -> anyhow::Result<State> {
    let caller = operator(config);
    let mut diagnosis = engine.context.diagnose(&caller, id, asked.items).await?;
    let (restore, call) = if diagnosis.session.is_some() {
        let call = Call::of(engine, &caller, id).await?;
        let restore = restored::all(engine, &caller, id, asked.format).await;
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
