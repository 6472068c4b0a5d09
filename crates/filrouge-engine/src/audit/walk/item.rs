//! The rows of one item.

use filrouge_store::read::Loaded;
use filrouge_store::record::FaultKind;
use filrouge_store::rows::View;
use filrouge_types::{Failure, Item, ItemBody, JsonText, RawJson, TurnId};

use super::Walk;
use crate::audit::calls::{LOOK_BACK, last_call};
use crate::audit::parts::{Told, Used, finish_reason, parts};
use crate::audit::{AuditError, AuditRow};

/// What an item holds.
#[derive(Default)]
struct Content<'a> {
    said: Said<'a>,
    /// How many calls and results.
    number: usize,
    /// Those that are shown with their numbers, and what of them no other member shows.
    uses: Vec<(usize, Used, Option<&'a str>)>,
    /// The first one that there was no room for.
    stopped: Option<usize>,
}

impl<V: View + ?Sized> Walk<'_, '_, V> {
    fn looked_at(&mut self, item: &Item) {
        self.items += 1;
        self.bytes += item.body.bytes();
    }

    /// Takes an item's rows but for the first `part`; the number of the next one when the page is full before that.
    pub(super) fn take(
        &mut self,
        session: &Loaded,
        item: &Item,
        part: usize,
        covered: bool,
    ) -> Result<Option<usize>, Failure> {
        self.looked_at(item);
        self.calls.shrink();
        let shown = covered && self.speaks(item) && self.asks(session, item)?;
        let from = if shown { part } else { usize::MAX };
        let content = self.content(session, item, from)?;
        if !shown {
            return Ok(None);
        }
        if content.number == 0 && self.wants(None) {
            let row = self.row(session, item, Some(content.said))?;
            self.rows.push(row);
            return Ok(None);
        }
        let mut said = Some(content.said);
        for (number, used, rest) in content.uses {
            let first = if number == 0 { said.take() } else { None };
            let row = self.row(session, item, first)?;
            self.rows.push(with(row, used, rest));
        }
        Ok(content.stopped)
    }

    /// What an item holds: its calls and results from the one numbered `from` on, as many as the page has room for.
    fn content<'i>(
        &mut self,
        session: &Loaded,
        item: &'i Item,
        from: usize,
    ) -> Result<Content<'i>, Failure> {
        let room = self.query.limit.saturating_sub(self.rows.len());
        let mut content = Content::default();
        for one in parts(&item.body.parts) {
            let rest = (!one.whole).then_some(one.raw);
            let mut used = match one.told {
                Told::Used(used) => *used,
                told => {
                    content.said.take(told, one.raw, one.whole);
                    continue;
                }
            };
            if let Some(turn) = item.turn_id.filter(|_| !used.is_result) {
                self.calls.note(turn, item.seq, &used);
            }
            let number = content.number;
            content.number += 1;
            if number < from || content.stopped.is_some() {
                continue;
            }
            if used.is_result {
                used.tool = self.answered(session, item, &used)?;
            }
            if !self.wants(used.tool.as_ref()) {
                continue;
            }
            if content.uses.len() == room {
                content.stopped = Some(number);
            } else {
                content.uses.push((number, used, rest));
            }
        }
        Ok(content)
    }

    fn speaks(&self, item: &Item) -> bool {
        let asked = self.query.agent.as_deref();
        asked.is_none_or(|agent| item.body.agent.as_deref() == Some(agent))
    }

    fn wants(&self, tool: Option<&JsonText>) -> bool {
        let asked = self.query.tool.as_deref();
        asked.is_none_or(|asked| tool.is_some_and(|tool| tool.to_plain() == asked))
    }

    /// Whether who asked is who is asked for.
    fn asks(&mut self, session: &Loaded, item: &Item) -> Result<bool, Failure> {
        let Some(wanted) = &self.query.identity_id else {
            return Ok(true);
        };
        let turn = match item.turn_id {
            Some(id) => Some(self.asked(session, id)?),
            None => None,
        };
        let asked = turn.as_ref().and_then(|t| t.start.identity_id.as_ref());
        Ok(asked.or(session.row.identity_id.as_ref()) == Some(wanted))
    }

    /// The tool whose call a result answers: the newest one before it in the same turn.
    fn answered(
        &mut self,
        session: &Loaded,
        item: &Item,
        result: &Used,
    ) -> Result<Option<JsonText>, Failure> {
        match (&result.call_id, item.turn_id) {
            (Some(id), Some(turn)) => self.called(session, turn, item.seq, &id.to_plain()),
            _ => Ok(None),
        }
    }

    fn called(
        &mut self,
        session: &Loaded,
        turn: TurnId,
        seq: u64,
        id: &str,
    ) -> Result<Option<JsonText>, Failure> {
        let first = self.asked(session, turn)?.first_seq;
        let floor = first.max(seq.saturating_sub(LOOK_BACK));
        if let Some((at, tool)) = self.calls.get(turn, id) {
            return Ok((*at >= floor).then(|| tool.clone()));
        }
        let (mut end, mut size) = (seq, 8);
        while end > floor {
            let begin = floor.max(end.saturating_sub(size));
            let (mut next, mut found) = (begin, None);
            while next < end {
                let wanted = usize::try_from(end - next).unwrap_or(usize::MAX);
                let (items, _) = self.sight.items_of(session, next - 1, wanted)?;
                let Some(last) = items.last() else {
                    return Err(session.broken(Some(next), FaultKind::Missing));
                };
                next = last.seq + 1;
                for item in items.iter().filter(|item| item.turn_id == Some(turn)) {
                    self.looked_at(item);
                    found = last_call(item, id).or(found);
                }
            }
            if found.is_some() {
                return Ok(found);
            }
            end = begin;
            size = (size * 4).min(256);
        }
        Ok(None)
    }

    /// An item's row without its calls and results; `said` is given for the first.
    fn row(
        &mut self,
        session: &Loaded,
        item: &Item,
        said: Option<Said<'_>>,
    ) -> Result<AuditRow, Failure> {
        let turn = match item.turn_id {
            Some(id) => Some(self.asked(session, id)?),
            None => None,
        };
        let start = turn.as_ref().map(|turn| &turn.start);
        let owner = session.row.identity_id.as_ref();
        let identity = start.and_then(|s| s.identity_id.as_ref()).or(owner);
        let ItemBody {
            item_id,
            role,
            channel,
            variant,
            parts: _,
            agent,
            model,
            usage: _,
            metadata: _,
            occurred_at,
        } = &item.body;
        let row = AuditRow {
            seq: Some(item.seq),
            turn_id: item.turn_id,
            request_id: start.map(|s| s.request_id.clone()),
            identity_id: identity.cloned(),
            occurred_at: *occurred_at,
            role: Some(*role),
            channel: Some(channel.clone()),
            variant: Some(*variant),
            agent: agent.clone(),
            model: model.clone(),
            redacted: item.redacted,
            item_id: item_id.clone(),
            ..AuditRow::bare(session.row.session_id.clone(), item.created_at)
        };
        Ok(match said {
            Some(said) => said.complete(row, item),
            None => row,
        })
    }
}

/// Puts a call or a result into a row, and what of it the row does not show whole.
fn with(row: AuditRow, used: Used, rest: Option<&str>) -> AuditRow {
    let mut row = AuditRow {
        tool: used.tool,
        call_id: used.call_id,
        args: used.args,
        ok: used.ok,
        latency_ms: used.latency_ms,
        result: used.result,
        ..row
    };
    if let Some(rest) = rest {
        row.detail = Some(match row.detail {
            Some(others) => {
                let others = others.as_str();
                let others = others.strip_suffix(']').unwrap_or(others);
                RawJson::from_checked(format!("{others},{rest}]"))
            }
            None => RawJson::from_checked(format!("[{rest}]")),
        });
    }
    row
}

/// What an item says besides its calls and results.
#[derive(Default)]
struct Said<'a> {
    texts: Vec<JsonText>,
    error: Option<AuditError>,
    rest: Vec<&'a str>,
}

impl<'a> Said<'a> {
    fn take(&mut self, told: Told, raw: &'a str, whole: bool) {
        let mut whole = whole;
        match told {
            Told::Text(text) => self.texts.push(text),
            Told::Error(error) if self.error.is_none() => self.error = Some(error),
            _ => whole = false,
        }
        if !whole {
            self.rest.push(raw);
        }
    }

    fn complete(self, row: AuditRow, item: &Item) -> AuditRow {
        let rest = (!self.rest.is_empty()).then(|| format!("[{}]", self.rest.join(",")));
        AuditRow {
            text: JsonText::join(&self.texts),
            error: self.error,
            usage: item.body.usage.clone(),
            finish_reason: finish_reason(item.body.metadata.as_ref()),
            detail: rest.map(RawJson::from_checked),
            ..row
        }
    }
}
