//! Token counts of providers and programs, normalized to five counts that do not overlap.
//!
//! An item's `usage` has the shape that its writer uses; the table [`SHAPES`] lists the known shapes. The five
//! normalized counts include each token once, so their sum is the number of tokens: `input` excludes tokens read from
//! or written to a cache, and `output` excludes reasoning. If a count of a shape includes another count, the other
//! count is subtracted.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// Counts of tokens that do not overlap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, utoipa::ToSchema, JsonSchema)]
pub struct Tokens {
    /// Input tokens, neither read from a cache nor written to one.
    pub input: u64,
    /// Output tokens without reasoning.
    pub output: u64,
    /// Reasoning tokens, where the provider counts them separately.
    pub reasoning: u64,
    /// Input tokens read from a cache.
    pub cache_read: u64,
    /// Input tokens written to a cache.
    pub cache_write: u64,
}

impl Tokens {
    /// Adds `other`, saturating on overflow.
    pub const fn add(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
    }

    /// The sum of the counts.
    pub const fn total(&self) -> u64 {
        self.input
            .saturating_add(self.output)
            .saturating_add(self.reasoning)
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }
}

/// Which counts of a shape include other counts.
#[derive(Debug, Clone, Copy)]
struct Inclusion {
    cache_in_input: bool,
    reasoning_in_output: bool,
}

const INCLUSIVE: Inclusion = Inclusion {
    cache_in_input: true,
    reasoning_in_output: true,
};
const SEPARATE: Inclusion = Inclusion {
    cache_in_input: false,
    reasoning_in_output: false,
};

/// A shape of `usage`: the JSON pointers of its counts.
struct Shape {
    /// A `usage` has this shape if at least one of these pointers exists in it.
    identified_by: &'static [&'static str],
    /// The counts at these pointers are summed.
    input: &'static [&'static str],
    output: &'static str,
    /// The first of these pointers that exists is used.
    reasoning: &'static [&'static str],
    /// The first of these pointers that exists is used.
    cache_read: &'static [&'static str],
    /// The first of these pointers that exists is used.
    cache_write: &'static [&'static str],
    inclusion: Inclusion,
}

/// The shape of OpenCode. Which counts include others depends on OpenCode's version.
const OPENCODE: Shape = Shape {
    identified_by: &["/tokens"],
    input: &["/tokens/input"],
    output: "/tokens/output",
    reasoning: &["/tokens/reasoning"],
    cache_read: &["/tokens/cache/read"],
    cache_write: &["/tokens/cache/write"],
    inclusion: SEPARATE,
};

/// The shapes other than OpenCode's. The first that matches is used.
const SHAPES: &[Shape] = &[
    // OpenAI chat completions and compatible APIs. DeepSeek reports tokens read from its cache at both pointers.
    Shape {
        identified_by: &["/prompt_tokens", "/completion_tokens"],
        input: &["/prompt_tokens"],
        output: "/completion_tokens",
        reasoning: &["/completion_tokens_details/reasoning_tokens"],
        cache_read: &[
            "/prompt_tokens_details/cached_tokens",
            "/prompt_cache_hit_tokens",
        ],
        cache_write: &["/prompt_tokens_details/cache_write_tokens"],
        inclusion: INCLUSIVE,
    },
    // OpenAI responses.
    Shape {
        identified_by: &[
            "/input_tokens_details",
            "/output_tokens_details/reasoning_tokens",
        ],
        input: &["/input_tokens"],
        output: "/output_tokens",
        reasoning: &["/output_tokens_details/reasoning_tokens"],
        cache_read: &["/input_tokens_details/cached_tokens"],
        cache_write: &["/input_tokens_details/cache_write_tokens"],
        inclusion: INCLUSIVE,
    },
    // LangChain's usage_metadata.
    Shape {
        identified_by: &["/input_token_details", "/output_token_details"],
        input: &["/input_tokens"],
        output: "/output_tokens",
        reasoning: &["/output_token_details/reasoning"],
        cache_read: &["/input_token_details/cache_read"],
        cache_write: &["/input_token_details/cache_creation"],
        inclusion: INCLUSIVE,
    },
    // Anthropic. OpenAI responses without details look the same.
    Shape {
        identified_by: &["/input_tokens", "/output_tokens"],
        input: &["/input_tokens"],
        output: "/output_tokens",
        reasoning: &["/output_tokens_details/thinking_tokens"],
        cache_read: &["/cache_read_input_tokens"],
        cache_write: &["/cache_creation_input_tokens"],
        inclusion: Inclusion {
            cache_in_input: false,
            reasoning_in_output: true,
        },
    },
    // Gemini, which counts prompt tokens of its built-in tools separately.
    Shape {
        identified_by: &["/promptTokenCount", "/candidatesTokenCount"],
        input: &["/promptTokenCount", "/toolUsePromptTokenCount"],
        output: "/candidatesTokenCount",
        reasoning: &["/thoughtsTokenCount"],
        cache_read: &["/cachedContentTokenCount"],
        cache_write: &[],
        inclusion: Inclusion {
            cache_in_input: true,
            reasoning_in_output: false,
        },
    },
    // The names of this program's own statistics.
    Shape {
        identified_by: &["/input", "/output"],
        input: &["/input"],
        output: "/output",
        reasoning: &["/reasoning"],
        cache_read: &["/cache_read", "/cache/read"],
        cache_write: &["/cache_write", "/cache/write"],
        inclusion: SEPARATE,
    },
];

/// Normalizes a `usage`; `None` if its shape is unknown or one of its values is not a count. `version` is the version
/// of the program that recorded it, if known; only OpenCode's shape depends on it.
pub fn tokens(usage: &Value, version: Option<&str>) -> Option<Tokens> {
    if OPENCODE.matches(usage) {
        let mut counts = OPENCODE.read(usage)?;
        opencode_inclusion(usage, &counts, version).apply(&mut counts);
        return Some(counts);
    }
    let shape = SHAPES.iter().find(|s| s.matches(usage))?;
    let mut counts = shape.read(usage)?;
    shape.inclusion.apply(&mut counts);
    Some(counts)
}

/// Which of OpenCode's counts include others. Up to version 0.x the input includes cache reads, and up to 1.2 the
/// output includes reasoning. From 1.1 on OpenCode may write a total; if so, the total shows whether the output
/// includes reasoning.
fn opencode_inclusion(usage: &Value, counts: &Tokens, version: Option<&str>) -> Inclusion {
    if let Some(total) = usage.pointer("/tokens/total").and_then(Value::as_u64) {
        let mut others = *counts;
        others.reasoning = 0;
        return Inclusion {
            cache_in_input: false,
            reasoning_in_output: total == others.total(),
        };
    }
    let starts = |prefix: &str| version.is_some_and(|v| v.starts_with(prefix));
    Inclusion {
        cache_in_input: starts("0."),
        reasoning_in_output: ["0.", "1.0.", "1.1.", "1.2."].into_iter().any(starts),
    }
}

impl Inclusion {
    fn apply(self, counts: &mut Tokens) {
        if self.cache_in_input {
            let cached = counts.cache_read.saturating_add(counts.cache_write);
            counts.input = counts.input.saturating_sub(cached);
        }
        if self.reasoning_in_output {
            counts.output = counts.output.saturating_sub(counts.reasoning);
        }
    }
}

impl Shape {
    fn matches(&self, usage: &Value) -> bool {
        self.identified_by
            .iter()
            .any(|p| usage.pointer(p).is_some())
    }

    /// The counts as written, before any subtraction; `None` if one of them is not a count.
    fn read(&self, usage: &Value) -> Option<Tokens> {
        let mut input = 0_u64;
        for pointer in self.input {
            input = input.saturating_add(count(usage, &[pointer])?);
        }
        Some(Tokens {
            input,
            output: count(usage, &[self.output])?,
            reasoning: count(usage, self.reasoning)?,
            cache_read: count(usage, self.cache_read)?,
            cache_write: count(usage, self.cache_write)?,
        })
    }
}

/// The count at the first pointer that exists, or 0 if none does; `None` if the value there is not a count.
fn count(usage: &Value, pointers: &[&str]) -> Option<u64> {
    let mut present = pointers.iter().filter_map(|p| usage.pointer(p));
    let value = present.find(|value| !value.is_null());
    value.map_or(Some(0), Value::as_u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(usage: &str, version: Option<&str>) -> Option<Tokens> {
        tokens(&serde_json::from_str(usage).unwrap(), version)
    }

    fn counts_of(usage: &str, version: Option<&str>) -> Option<[u64; 5]> {
        let t = read(usage, version)?;
        Some([t.input, t.output, t.reasoning, t.cache_read, t.cache_write])
    }

    #[test]
    fn each_token_is_counted_once_in_every_shape() {
        // 5210 input tokens, 1000 of them from a cache; 240 output tokens, 96 of them reasoning.
        let expected = Some([4210, 144, 96, 1000, 0]);
        for (usage, version) in [
            (
                r#"{"prompt_tokens":5210,"completion_tokens":240,"total_tokens":5450,
                "prompt_tokens_details":{"cached_tokens":1000},"completion_tokens_details":{"reasoning_tokens":96}}"#,
                None,
            ),
            (
                r#"{"prompt_tokens":5210,"completion_tokens":240,"prompt_cache_hit_tokens":1000,"prompt_cache_miss_tokens":4210,
                "prompt_tokens_details":{"cached_tokens":1000},"completion_tokens_details":{"reasoning_tokens":96}}"#,
                None,
            ),
            (
                r#"{"input_tokens":5210,"input_tokens_details":{"cached_tokens":1000},"output_tokens":240,
                "output_tokens_details":{"reasoning_tokens":96},"total_tokens":5450}"#,
                None,
            ),
            (
                r#"{"input_tokens":5210,"output_tokens":240,"total_tokens":5450,
                "input_token_details":{"cache_read":1000},"output_token_details":{"reasoning":96}}"#,
                None,
            ),
            (
                r#"{"promptTokenCount":5210,"cachedContentTokenCount":1000,"candidatesTokenCount":144,"thoughtsTokenCount":96}"#,
                None,
            ),
            (
                r#"{"input":4210,"output":144,"reasoning":96,"cache_read":1000}"#,
                None,
            ),
            (
                r#"{"tokens":{"input":5210,"output":240,"reasoning":96,"cache":{"read":1000,"write":0}}}"#,
                Some("0.5.29"),
            ),
            (
                r#"{"tokens":{"input":4210,"output":240,"reasoning":96,"cache":{"read":1000,"write":0}}}"#,
                Some("1.0.185"),
            ),
            (
                r#"{"tokens":{"total":5450,"input":4210,"output":240,"reasoning":96,"cache":{"read":1000,"write":0}},"cost":0.1}"#,
                Some("1.1.65"),
            ),
            (
                r#"{"tokens":{"total":5450,"input":4210,"output":144,"reasoning":96,"cache":{"read":1000,"write":0}}}"#,
                Some("1.18.33"),
            ),
            (
                r#"{"tokens":{"input":4210,"output":144,"reasoning":96,"cache":{"read":1000,"write":0}}}"#,
                None,
            ),
        ] {
            assert_eq!(counts_of(usage, version), expected, "{usage}");
        }
    }

    #[test]
    fn anthropic_counts_its_cache_separately() {
        let usage = r#"{"input_tokens":10,"cache_creation_input_tokens":200,"cache_read_input_tokens":3000,
            "cache_creation":{"ephemeral_5m_input_tokens":200},"output_tokens":40,"service_tier":"standard"}"#;
        assert_eq!(counts_of(usage, None), Some([10, 40, 0, 3000, 200]));
        let thinking = r#"{"input_tokens":10,"cache_creation_input_tokens":200,"cache_read_input_tokens":3000,
            "output_tokens":40,"output_tokens_details":{"thinking_tokens":25}}"#;
        assert_eq!(counts_of(thinking, None), Some([10, 15, 25, 3000, 200]));
        let bare = r#"{"input_tokens":10,"output_tokens":4,"cache_read_input_tokens":null}"#;
        assert_eq!(counts_of(bare, None), Some([10, 4, 0, 0, 0]));
        let tools = r#"{"promptTokenCount":5,"toolUsePromptTokenCount":7}"#;
        assert_eq!(counts_of(tools, None), Some([12, 0, 0, 0, 0]));
    }

    #[test]
    fn openai_includes_tokens_written_to_its_cache_in_the_input() {
        let chat = r#"{"prompt_tokens":5210,"completion_tokens":240,
            "prompt_tokens_details":{"cached_tokens":1000,"cache_write_tokens":200}}"#;
        let responses = r#"{"input_tokens":5210,"output_tokens":240,
            "input_tokens_details":{"cached_tokens":1000,"cache_write_tokens":200}}"#;
        for usage in [chat, responses] {
            assert_eq!(
                counts_of(usage, None),
                Some([4010, 240, 0, 1000, 200]),
                "{usage}"
            );
        }
    }

    #[test]
    fn values_that_are_not_counts_are_unknown() {
        for usage in [
            "{}",
            r#"{"cost":0.5}"#,
            r#"{"inputTokens":5,"cachedInputTokens":2}"#,
            r#"{"prompt_tokens":-1,"completion_tokens":2}"#,
            r#"{"prompt_tokens":"many"}"#,
            r#"{"input_tokens":1.5,"output_tokens":2}"#,
            r#"{"prompt_tokens":1,"prompt_tokens_details":{"cached_tokens":[]}}"#,
        ] {
            assert_eq!(read(usage, None), None, "{usage}");
        }
    }

    #[test]
    fn a_count_that_exceeds_the_count_that_includes_it_leaves_zero() {
        let usage = r#"{"prompt_tokens":5,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":9},
            "completion_tokens_details":{"reasoning_tokens":18446744073709551615}}"#;
        assert_eq!(counts_of(usage, None), Some([0, 0, u64::MAX, 9, 0]));
        let mut sum = Tokens {
            reasoning: 1,
            ..Tokens::default()
        };
        sum.add(&read(usage, None).unwrap());
        assert_eq!(sum.reasoning, u64::MAX);
    }
}
