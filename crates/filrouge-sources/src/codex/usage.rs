//! Counts tokens. Current versions record the usage of each response in a `token_usage_record`. Earlier versions
//! recorded the running total of the thread in `token_count` events, and the same total in several of them.

use crate::Tokens;
use crate::object::Object;
use crate::raw::Raw;

/// Numbers of tokens as Codex reports them: `input` includes `cached` and `written`, `output` includes `reasoning`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ReportedUsage {
    input: u64,
    cached: u64,
    written: u64,
    output: u64,
    reasoning: u64,
}

impl ReportedUsage {
    fn read(raw: Raw<'_>) -> Option<Self> {
        let usage: Object<'_> = raw.object()?;
        let number = |raw: Raw<'_>| raw.number().unwrap_or(0);
        Some(Self {
            input: number(usage.field("input_tokens")),
            cached: number(usage.field("cached_input_tokens")),
            written: number(usage.field("cache_write_input_tokens")),
            output: number(usage.field("output_tokens")),
            reasoning: number(usage.field("reasoning_output_tokens")),
        })
    }

    /// Returns the increase since `before`; `None` if a number has become smaller.
    fn increase_since(self, before: Self) -> Option<Self> {
        Some(Self {
            input: self.input.checked_sub(before.input)?,
            cached: self.cached.checked_sub(before.cached)?,
            written: self.written.checked_sub(before.written)?,
            output: self.output.checked_sub(before.output)?,
            reasoning: self.reasoning.checked_sub(before.reasoning)?,
        })
    }

    const fn to_tokens(self) -> Tokens {
        let cached = self.cached.saturating_add(self.written);
        Tokens {
            input: self.input.saturating_sub(cached),
            output: self.output.saturating_sub(self.reasoning),
            reasoning: self.reasoning,
            cache_read: self.cached,
            cache_write: self.written,
        }
    }
}

/// Counts the usage of one file.
#[derive(Default)]
pub(super) struct Counter {
    /// The newest running total.
    running_total: ReportedUsage,
    /// Whether a `token_usage_record` was read: running totals then do not count.
    has_response_usage: bool,
}

impl Counter {
    /// Returns the tokens of a `token_usage_record`.
    pub(super) fn response_usage(&mut self, record: &Object<'_>) -> Option<Tokens> {
        self.has_response_usage = true;
        ReportedUsage::read(record.field("usage")).map(ReportedUsage::to_tokens)
    }

    /// Returns the increase of the running total in a `token_count`. `None` if the total is the same as before, or if a
    /// `token_usage_record` was read.
    pub(super) fn running_total_increase(&mut self, event: &Object<'_>) -> Option<Tokens> {
        let info: Object<'_> = event.field("info").object()?;
        let sum = ReportedUsage::read(info.field("total_token_usage"))?;
        let before = std::mem::replace(&mut self.running_total, sum);
        if self.has_response_usage || sum == before {
            return None;
        }
        // A total that has become smaller was reset, as some versions do after a fork. The event's own usage then
        // counts.
        let added = sum
            .increase_since(before)
            .or_else(|| ReportedUsage::read(info.field("last_token_usage")));
        Some(added.unwrap_or(sum).to_tokens())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(counter: &mut Counter, json: &str) -> Option<Tokens> {
        counter.running_total_increase(&Object::parse(json).ok().unwrap())
    }

    fn token_count(total: (u64, u64, u64), last: u64) -> String {
        let (input, cached, output) = total;
        let total = format!(
            r#""input_tokens":{input},"cached_input_tokens":{cached},"output_tokens":{output},"reasoning_output_tokens":1"#
        );
        let last = format!(r#""input_tokens":{last},"output_tokens":2"#);
        let info = format!(r#"{{"total_token_usage":{{{total}}},"last_token_usage":{{{last}}}}}"#);
        format!(r#"{{"type":"token_count","info":{info}}}"#)
    }

    #[test]
    fn running_totals_are_counted_by_their_increase() {
        let mut counter = Counter::default();
        let first = count(&mut counter, &token_count((100, 40, 10), 100)).unwrap();
        assert_eq!(
            (first.input, first.cache_read, first.output, first.reasoning),
            (60, 40, 9, 1)
        );
        assert_eq!(count(&mut counter, &token_count((100, 40, 10), 100)), None);
        let second = count(&mut counter, &token_count((150, 60, 20), 50)).unwrap();
        assert_eq!(
            (
                second.input,
                second.cache_read,
                second.output,
                second.reasoning
            ),
            (30, 20, 10, 0)
        );
        // The total was reset.
        let third = count(&mut counter, &token_count((7, 0, 2), 7)).unwrap();
        assert_eq!((third.input, third.output), (7, 2));
        let null = r#"{"type":"token_count","info":null}"#;
        assert_eq!(count(&mut counter, null), None);
    }
}
