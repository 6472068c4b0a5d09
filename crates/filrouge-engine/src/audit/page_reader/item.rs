//! The rows of one item.

use filrouge_store::read::VerifiedSession;
use filrouge_store::record::RecordFaultKind;
use filrouge_store::rows::View;
use filrouge_types::{Item, JsonText, RawJson, Result, TurnId};

use super::PageReader;
use crate::audit::calls::{LOOK_BACK, last_call};
use crate::audit::parts::{CallOrResult, PartContent, finish_reason, parts};
use crate::audit::{AuditError, AuditKind, AuditRow};

/// The content of an item that the rows of this page show.
#[derive(Default)]
struct ItemContent<'a> {
    other: OtherContent<'a>,
    /// The number of calls and results.
    call_count: usize,
    /// The calls and results to show: each with its number in the item, and with its raw part if the row does not show
    /// all of it.
    calls_and_results: Vec<(usize, CallOrResult, Option<&'a str>)>,
    /// The number of the first call or result that did not fit in the page; the next page resumes there.
    resume_at: Option<usize>,
}

impl<V: View + ?Sized> PageReader<'_, '_, V> {
    fn count_examined(&mut self, item: &Item) {
        self.examined_items += 1;
        self.examined_bytes += item.body.bytes();
    }

    /// Adds an item's rows from call or result number `part` on. If the page fills up first, returns the number at
    /// which the next page resumes. An item outside the query's time range (`in_time_range` is false) gets no row, but
    /// its calls are added to the call index.
    pub(super) fn add_item(
        &mut self,
        session: &VerifiedSession,
        item: &Item,
        part: usize,
        in_time_range: bool,
    ) -> Result<Option<usize>> {
        self.count_examined(item);
        self.calls.clear_if_full();
        let kind = AuditKind::of_item(&item.body.channel, item.turn_id);
        let is_shown = in_time_range
            && self.query.includes_kind(kind)
            && self.matches_agent(item)
            && self.matches_identity(session, item)?;
        let first_number = if is_shown { part } else { usize::MAX };
        let content = self.content(session, item, first_number)?;
        if !is_shown {
            return Ok(None);
        }
        if content.call_count == 0 && self.matches_tool(None) {
            let call = CallOrResult::default();
            let row = self.row(session, item, Some(content.other), call, None)?;
            self.rows.push(row);
            return Ok(None);
        }
        let mut other = Some(content.other);
        for (number, call_or_result, detail) in content.calls_and_results {
            let first = if number == 0 { other.take() } else { None };
            let row = self.row(session, item, first, call_or_result, detail)?;
            self.rows.push(row);
        }
        Ok(content.resume_at)
    }

    /// Returns an item's content, with its calls and results from number `first_number` on, up to the page's limit.
    /// Adds all its calls to the call index.
    fn content<'i>(
        &mut self,
        session: &VerifiedSession,
        item: &'i Item,
        first_number: usize,
    ) -> Result<ItemContent<'i>> {
        let rows_left = self.query.limit.saturating_sub(self.rows.len());
        let mut content = ItemContent::default();
        for part in parts(&item.body.parts) {
            let detail = (!part.is_complete).then_some(part.raw);
            let mut call_or_result = match part.content {
                PartContent::CallOrResult(call_or_result) => *call_or_result,
                part_content => {
                    content.other.add(part_content, part.raw, part.is_complete);
                    continue;
                }
            };
            if let Some(turn) = item.turn_id.filter(|_| !call_or_result.is_result) {
                self.calls.insert(turn, item.seq, &call_or_result);
            }
            let number = content.call_count;
            content.call_count += 1;
            if number < first_number || content.resume_at.is_some() {
                continue;
            }
            if call_or_result.is_result
                && let (Some(id), Some(turn)) = (&call_or_result.call_id, item.turn_id)
            {
                let id = id.to_plain();
                call_or_result.tool = self.find_tool(session, turn, item.seq, &id)?;
            }
            if !self.matches_tool(call_or_result.tool.as_ref()) {
                continue;
            }
            if content.calls_and_results.len() == rows_left {
                content.resume_at = Some(number);
            } else {
                content
                    .calls_and_results
                    .push((number, call_or_result, detail));
            }
        }
        Ok(content)
    }

    fn matches_agent(&self, item: &Item) -> bool {
        let expected = self.query.agent.as_deref();
        expected.is_none_or(|agent| item.body.agent.as_deref() == Some(agent))
    }

    fn matches_tool(&self, tool: Option<&JsonText>) -> bool {
        let expected = self.query.tool.as_deref();
        expected.is_none_or(|expected| tool.is_some_and(|tool| tool.to_plain() == expected))
    }

    /// Whether the end user of the item's turn, or else the owner of the session, matches the query.
    fn matches_identity(&mut self, session: &VerifiedSession, item: &Item) -> Result<bool> {
        let Some(expected) = &self.query.identity_id else {
            return Ok(true);
        };
        let turn = item.turn_id.map(|id| self.turn_start(session, id));
        let turn = turn.transpose()?;
        let identity = turn.as_ref().and_then(|t| t.start.identity_id.as_ref());
        Ok(identity.or(session.row.identity_id.as_ref()) == Some(expected))
    }

    /// The tool of the newest call with this `id` in the items of `turn` up to `seq`; `None` if there is none within
    /// the last [`LOOK_BACK`] items.
    fn find_tool(
        &mut self,
        session: &VerifiedSession,
        turn: TurnId,
        seq: u64,
        id: &str,
    ) -> Result<Option<JsonText>> {
        let first = self.turn_start(session, turn)?.first_seq;
        let floor = first.max(seq.saturating_sub(LOOK_BACK));
        if let Some((at, tool)) = self.calls.get(turn, id) {
            return Ok((*at >= floor).then(|| tool.clone()));
        }
        let (mut end, mut window) = (seq, 8);
        while end > floor {
            let begin = floor.max(end.saturating_sub(window));
            let (mut next, mut tool) = (begin, None);
            while next < end {
                let count = usize::try_from(end - next).unwrap_or(usize::MAX);
                let (items, _) = self.snapshot.items_of(session, next - 1, count)?;
                let Some(last) = items.last() else {
                    return Err(session.integrity_failure(Some(next), RecordFaultKind::Missing));
                };
                next = last.seq + 1;
                for item in items.iter().filter(|item| item.turn_id == Some(turn)) {
                    self.count_examined(item);
                    tool = last_call(item, id).or(tool);
                }
            }
            if tool.is_some() {
                return Ok(tool);
            }
            end = begin;
            window = (window * 4).min(256);
        }
        Ok(None)
    }

    /// An item's row with one of its calls or results; `detail` is this part as recorded if the row does not show all
    /// of it. Only the item's first row gets `other`.
    fn row<'i>(
        &mut self,
        session: &VerifiedSession,
        item: &Item,
        other: Option<OtherContent<'i>>,
        call_or_result: CallOrResult,
        detail: Option<&'i str>,
    ) -> Result<AuditRow> {
        let turn = item.turn_id.map(|id| self.turn_start(session, id));
        let turn = turn.transpose()?;
        let start = turn.as_ref().map(|turn| &turn.start);
        let owner = session.row.identity_id.as_ref();
        let identity = start.and_then(|s| s.identity_id.as_ref()).or(owner);
        let is_first = other.is_some();
        let mut other = other.unwrap_or_default();
        other.details.extend(detail);
        let details = other.details.join(",");
        let body = &item.body;
        Ok(AuditRow {
            session_id: session.row.session_id.clone(),
            seq: Some(item.seq),
            turn_id: item.turn_id,
            request_id: start.map(|s| s.request_id.clone()),
            identity_id: identity.cloned(),
            at: item.created_at,
            occurred_at: body.occurred_at,
            role: Some(body.role),
            channel: Some(body.channel.clone()),
            variant: Some(body.variant),
            agent: body.agent.clone(),
            model: body.model.clone(),
            text: JsonText::join(&other.texts),
            tool: call_or_result.tool,
            call_id: call_or_result.call_id,
            args: call_or_result.args,
            ok: call_or_result.ok,
            latency_ms: call_or_result.latency_ms,
            result: call_or_result.result,
            error: other.error,
            usage: body.usage.clone().filter(|_| is_first),
            finish_reason: finish_reason(body.metadata.as_ref()).filter(|_| is_first),
            redacted: item.redacted,
            item_id: body.item_id.clone(),
            detail: (!details.is_empty()).then(|| RawJson::from_checked(format!("[{details}]"))),
        })
    }
}

/// An item's content besides its calls and results.
#[derive(Default)]
struct OtherContent<'a> {
    texts: Vec<JsonText>,
    error: Option<AuditError>,
    /// The raw parts that the row's other members do not show completely.
    details: Vec<&'a str>,
}

impl<'a> OtherContent<'a> {
    fn add(&mut self, content: PartContent, raw: &'a str, is_complete: bool) {
        let mut is_complete = is_complete;
        match content {
            PartContent::Text(text) => self.texts.push(text),
            PartContent::Error(error) if self.error.is_none() => self.error = Some(error),
            _ => is_complete = false,
        }
        if !is_complete {
            self.details.push(raw);
        }
    }
}
