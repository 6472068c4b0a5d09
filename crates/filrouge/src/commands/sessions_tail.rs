//! `filrouge sessions tail ID [--after N] [--drafts]`: items as they come, until Ctrl-C.

use std::io::Write;
use std::process::ExitCode;

use filrouge_engine::live::Live;
use filrouge_engine::tail::{DraftEvent, Tail, TailEvent};
use filrouge_types::{IdError, Item, JsonText, SessionId};
use serde::Serialize;

use super::sessions_show::line;
use crate::config::Config;
use crate::exit::Usage;
use crate::open::{Need, Opened, open, operator};
use crate::output::stdout;

/// Items read at once.
const PAGE: usize = 500;

pub(super) async fn run(
    config: &Config,
    id: &str,
    after: Option<u64>,
    drafts: bool,
) -> anyhow::Result<ExitCode> {
    let id: SessionId = id.parse().map_err(|e: IdError| Usage::new(e.to_string()))?;
    let opened = open(config, Need::Existing).await?;
    let live = Live::start(opened.ledger.clone());
    let followed = tokio::select! {
        ended = follow(config, &opened, &live, &id, (after, drafts)) => ended,
        stopped = tokio::signal::ctrl_c() => stopped.map_err(Into::into),
    };
    drop(live);
    opened.close().await;
    followed?;
    Ok(ExitCode::SUCCESS)
}

/// Shows what comes behind `after`, or from now on, until something fails.
async fn follow(
    config: &Config,
    opened: &Opened,
    live: &Live,
    id: &SessionId,
    (after, drafts): (Option<u64>, bool),
) -> anyhow::Result<()> {
    let scope = operator(config);
    let ledger = opened.ledger.as_ref();
    let mut follower = live.follow(ledger, &scope, id).await?;
    let after = match after {
        Some(after) => after,
        None => ledger.session(&scope, id).await?.last_seq,
    };
    let mut tail = Tail::behind(after, drafts);
    let mut screen = Screen {
        json: config.json,
        growing: None,
    };
    loop {
        let (events, all) = tail.read(ledger, &scope, id, PAGE).await?;
        screen.show(&events)?;
        if all {
            follower.changed().await;
        }
    }
}

/// What has been shown.
struct Screen {
    json: bool,
    /// The part of which the last line shows the beginning.
    growing: Option<(Box<str>, u64)>,
}

/// A draft among JSON lines.
#[derive(Serialize)]
struct DraftLine<'a> {
    draft: &'a DraftEvent,
}

impl Screen {
    fn show(&mut self, events: &[TailEvent]) -> std::io::Result<()> {
        let mut out = stdout();
        for event in events {
            match event {
                TailEvent::Item(item) => self.item(&mut out, item)?,
                TailEvent::Draft(draft) => self.draft(&mut out, draft)?,
            }
        }
        out.flush()
    }

    fn item(&mut self, out: &mut impl Write, item: &Item) -> std::io::Result<()> {
        if self.json {
            serde_json::to_writer(&mut *out, item)?;
            return writeln!(out);
        }
        if self.growing.take().is_some() {
            writeln!(out)?;
        }
        writeln!(out, "{}", line(item))
    }

    fn draft(&mut self, out: &mut impl Write, draft: &DraftEvent) -> std::io::Result<()> {
        if self.json {
            serde_json::to_writer(&mut *out, &DraftLine { draft })?;
            return writeln!(out);
        }
        let part = (draft.item_id.as_str().into(), draft.part);
        if self.growing.as_ref() != Some(&part) || draft.offset == 0 {
            if self.growing.is_some() {
                writeln!(out)?;
            }
            write!(out, "     … {} {} ", draft.role, draft.kind)?;
            self.growing = Some(part);
        }
        let text =
            JsonText::from_raw(draft.text.clone()).map_or_else(|_| String::new(), |t| t.to_plain());
        write!(out, "{}", crate::output::printable(&text))
    }
}
