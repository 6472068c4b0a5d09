//! Counts tokens. Current versions record the usage of each response in a `token_usage_record`. Earlier versions
//! recorded the running total of the thread in `token_count` events, and the same total in several of them.

use crate::Tokens;
use crate::object::Object;
use crate::raw::Raw;

/// Numbers of tokens as Codex reports them: `input` includes `cached` and `written`, `output` includes `reasoning`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Reported {
    input: u64,
    cached: u64,
    written: u64,
    output: u64,
    reasoning: u64,
}

impl Reported {
    fn of(raw: Raw<'_>) -> Option<Self> {
        let usage: Object<'_> = raw.object()?;
        let number = |raw: Raw<'_>| raw.number().unwrap_or(0);
        Some(Self {
            input: number(usage.at("input_tokens")),
            cached: number(usage.at("cached_input_tokens")),
            written: number(usage.at("cache_write_input_tokens")),
            output: number(usage.at("output_tokens")),
            reasoning: number(usage.at("reasoning_output_tokens")),
        })
    }

    /// Returns the increase since `before`; `None` if a number has become smaller.
    fn since(self, before: Self) -> Option<Self> {
        Some(Self {
            input: self.input.checked_sub(before.input)?,
            cached: self.cached.checked_sub(before.cached)?,
            written: self.written.checked_sub(before.written)?,
            output: self.output.checked_sub(before.output)?,
            reasoning: self.reasoning.checked_sub(before.reasoning)?,
        })
    }

    const fn tokens(self) -> Tokens {
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
    sum: Reported,
    /// Whether a `token_usage_record` was read: running totals then do not count.
    by_response: bool,
}

impl Counter {
    /// Returns the tokens of a `token_usage_record`.
    pub(super) fn response(&mut self, record: &Object<'_>) -> Option<Tokens> {
        self.by_response = true;
        Reported::of(record.at("usage")).map(Reported::tokens)
    }

    /// Returns the tokens that a `token_count` adds; `None` if it repeats the total before it, or once a
    /// `token_usage_record` was read.
    pub(super) fn count(&mut self, event: &Object<'_>) -> Option<Tokens> {
        let info: Object<'_> = event.at("info").object()?;
        let sum = Reported::of(info.at("total_token_usage"))?;
        let before = std::mem::replace(&mut self.sum, sum);
        if self.by_response || sum == before {
            return None;
        }
        // A total that has become smaller was reset, as some versions do after a fork. The event's own usage then
        // counts.
        let added = sum
            .since(before)
            .or_else(|| Reported::of(info.at("last_token_usage")));
        Some(added.unwrap_or(sum).tokens())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(counter: &mut Counter, json: &str) -> Option<Tokens> {
        counter.count(&Object::parse(json).ok().unwrap())
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
