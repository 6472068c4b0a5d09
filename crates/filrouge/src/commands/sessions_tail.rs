//! `filrouge sessions tail ID [--after N] [--drafts]`: items as they come, until Ctrl-C.

use std::io::Write;

use filrouge_engine::Caller;
use filrouge_engine::following::{DraftEvent, TailEvent};
use filrouge_types::{Item, ItemId, JsonText, SessionId};
use serde::Serialize;

use super::sessions_show::line;
use crate::config::Config;
use crate::exit::parsed;
use crate::open::{Need, Opened, with};
use crate::output::{first_line, printable, stdout};

/// Items read at once.
const PAGE: usize = 500;

pub(super) async fn run(
    config: &Config,
    id: &str,
    after: Option<u64>,
    drafts: bool,
) -> anyhow::Result<()> {
    let id: SessionId = parsed(id)?;
    with(config, Need::Existing, async |opened, caller| {
        let mut screen = Screen {
            json: config.json,
            growing: None,
        };
        tokio::select! {
            ended = screen.follow(opened, caller, id, (after, drafts)) => ended,
            stopped = tokio::signal::ctrl_c() => stopped.map_err(Into::into),
        }
    })
    .await
}

/// What has been shown.
struct Screen {
    json: bool,
    /// The part that the last line shows as far as it has come.
    growing: Option<Growing>,
}

/// A part that grows on a line.
struct Growing {
    item_id: ItemId,
    part: u64,
    /// Whether anything of its text is there.
    has_text: bool,
}

impl Growing {
    fn is_of(&self, draft: &DraftEvent) -> bool {
        self.item_id == draft.item_id && self.part == draft.part
    }
}

/// A draft among JSON lines.
#[derive(Serialize)]
struct DraftLine<'a> {
    draft: &'a DraftEvent,
}

impl Screen {
    /// Shows what comes behind `after`, or from now on, until something fails.
    async fn follow(
        &mut self,
        opened: &Opened,
        caller: &Caller,
        id: SessionId,
        (after, drafts): (Option<u64>, bool),
    ) -> anyhow::Result<()> {
        let mut tail = (opened.engine.following)
            .tail(caller, id, after, drafts)
            .await?;
        loop {
            let (events, all) = tail.read(PAGE).await?;
            self.show(&events)?;
            if all {
                tail.changed().await;
            }
        }
    }

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
        let before = self.growing.take();
        // At 0 it begins again, and what stands there is over.
        let goes_on = |g: &&Growing| g.is_of(draft) && (draft.offset > 0 || !g.has_text);
        let known = before.as_ref().filter(goes_on);
        if known.is_none() {
            if before.is_some() {
                writeln!(out)?;
            }
            write!(out, "     … {} {} ", draft.role, draft.kind)?;
            if let Some(name) = &draft.name {
                write!(out, "{} ", first_line(&name.to_plain(), 100))?;
            }
        }
        let text = JsonText::from_raw(draft.text.clone());
        let text = text.map_or_else(|_| String::new(), |t| t.to_plain());
        self.growing = Some(Growing {
            item_id: draft.item_id.clone(),
            part: draft.part,
            has_text: !text.is_empty() || known.is_some_and(|g| g.has_text),
        });
        write!(out, "{}", printable(&text))
    }
}

#[cfg(test)]
mod tests {
    use filrouge_types::{Channel, RawJson, Role, TurnId};

    use super::*;

    fn shown(events: &[(u64, &'static str, u64, &str)]) -> String {
        let mut out = Vec::new();
        let mut screen = Screen {
            json: false,
            growing: None,
        };
        for (part, kind, offset, text) in events {
            let is_call = *kind == "tool_call";
            let event = DraftEvent {
                turn_id: TurnId::from_bytes([1; 16]),
                item_id: "st_00c0ffee00c0ffee.0".parse().unwrap(),
                part: *part,
                kind,
                role: Role::Assistant,
                channel: Channel::Final,
                call_id: is_call.then(|| JsonText::from_plain("k1")),
                name: is_call.then(|| JsonText::from_plain("look\u{1b}\nup")),
                agent: None,
                model: None,
                offset: *offset,
                text: RawJson::write(text).unwrap(),
                done: false,
            };
            screen.draft(&mut out, &event).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_call_is_one_line_with_the_name_of_its_tool() {
        let call = [
            (0, "tool_call", 0, ""),
            (0, "tool_call", 0, "{\"at\":"),
            (0, "tool_call", 6, "1}"),
        ];
        assert_eq!(
            shown(&call),
            "     … assistant tool_call look\u{fffd} {\"at\":1}"
        );
    }

    #[test]
    fn what_begins_or_begins_again_has_a_line_of_its_own() {
        let again = [
            (0, "text", 0, "To"),
            (0, "text", 2, " the"),
            (0, "text", 0, "Go"),
            (1, "text", 0, "Stop"),
        ];
        let lines =
            "     … assistant text To the\n     … assistant text Go\n     … assistant text Stop";
        assert_eq!(shown(&again), lines);
    }
}
