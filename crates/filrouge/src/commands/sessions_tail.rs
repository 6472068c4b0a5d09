//! `filrouge sessions tail ID [--after N] [--drafts]`: shows items as they are committed, until Ctrl-C.

use std::io::Write;

use anyhow::Result;
use filrouge_engine::Caller;
use filrouge_engine::following::{DraftEvent, TailEvent};
use filrouge_types::{Item, ItemId, JsonText, SessionId};
use serde::Serialize;

use super::named_session::in_ledger;
use super::sessions_show::item_line;
use crate::config::Config;
use crate::exit::parse;
use crate::open::{IfMissing, OpenStore, with};
use crate::output::{first_line, json_for_stdout, printable, stdout};

/// The number of items per page.
const PAGE_ITEMS: usize = 500;

pub(super) async fn run(config: &Config, id: &str, after: Option<u64>, drafts: bool) -> Result<()> {
    let id: SessionId = parse(id)?;
    with(config, IfMissing::Fail, async |opened, caller| {
        let id = in_ledger(&opened.engine, caller, id).await?;
        let mut screen = Screen {
            json: config.json,
            growing: None,
        };
        tokio::select! {
            result = screen.follow(opened, caller, id, (after, drafts)) => result,
            signal = tokio::signal::ctrl_c() => signal.map_err(Into::into),
        }
    })
    .await
}

/// The state of the screen.
struct Screen {
    json: bool,
    /// The growing part that the last line shows, if it shows one.
    growing: Option<GrowingPart>,
}

/// A part of a draft that still grows, shown on one line.
struct GrowingPart {
    item_id: ItemId,
    part: u64,
    /// Whether any of its text is shown.
    has_text: bool,
}

/// A draft as a JSON line.
#[derive(Serialize)]
struct DraftLine<'a> {
    draft: &'a DraftEvent,
}

impl Screen {
    /// Shows the items after the seq `after`, or only new items without it, and with `drafts` also growing texts.
    /// Returns only on an error.
    async fn follow(
        &mut self,
        opened: &OpenStore,
        caller: &Caller,
        id: SessionId,
        (after, drafts): (Option<u64>, bool),
    ) -> Result<()> {
        let mut tail = (opened.engine.following)
            .tail(caller, id, after, drafts)
            .await?;
        loop {
            let (events, is_last_page) = tail.read(PAGE_ITEMS).await?;
            self.show(&events)?;
            if is_last_page {
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
            let json = serde_json::to_string(item)?;
            return writeln!(out, "{}", json_for_stdout(&json));
        }
        if self.growing.take().is_some() {
            writeln!(out)?;
        }
        writeln!(out, "{}", item_line(item))
    }

    fn draft(&mut self, out: &mut impl Write, draft: &DraftEvent) -> std::io::Result<()> {
        if self.json {
            let json = serde_json::to_string(&DraftLine { draft })?;
            return writeln!(out, "{}", json_for_stdout(&json));
        }
        let previous = self.growing.take();
        // Offset 0 restarts the part: the shown text is obsolete.
        let continues = |g: &&GrowingPart| {
            let is_same_part = g.item_id == draft.item_id && g.part == draft.part;
            is_same_part && (draft.offset > 0 || !g.has_text)
        };
        let continued = previous.as_ref().filter(continues);
        if continued.is_none() {
            if previous.is_some() {
                writeln!(out)?;
            }
            write!(out, "     … {} {} ", draft.role, draft.kind)?;
            if let Some(name) = &draft.name {
                write!(out, "{} ", first_line(&name.to_plain(), 100))?;
            }
        }
        let text = JsonText::from_raw(draft.text.clone());
        let text = text.map_or_else(|_| String::new(), |t| t.to_plain());
        self.growing = Some(GrowingPart {
            item_id: draft.item_id.clone(),
            part: draft.part,
            has_text: !text.is_empty() || continued.is_some_and(|g| g.has_text),
        });
        write!(out, "{}", printable(&text))
    }
}

#[cfg(test)]
mod tests {
    use filrouge_types::{Channel, RawJson, Role, TurnId};

    use super::*;

    fn shown_lines(events: &[(u64, &'static str, u64, &str)]) -> String {
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
    fn a_calls_line_names_its_tool() {
        let call = [
            (0, "tool_call", 0, ""),
            (0, "tool_call", 0, "{\"at\":"),
            (0, "tool_call", 6, "1}"),
        ];
        assert_eq!(
            shown_lines(&call),
            "     … assistant tool_call look\u{fffd} {\"at\":1}"
        );
    }

    #[test]
    fn a_new_or_restarted_part_starts_a_line() {
        let events = [
            (0, "text", 0, "To"),
            (0, "text", 2, " the"),
            (0, "text", 0, "Go"),
            (1, "text", 0, "Stop"),
        ];
        let lines =
            "     … assistant text To the\n     … assistant text Go\n     … assistant text Stop";
        assert_eq!(shown_lines(&events), lines);
    }
}
