//! Token counts of a run.

use filrouge_engine::stream::Transcript;

use crate::stream::json::{self, Raw};

json::members! {
    /// The token counts of one model. The input count includes cached tokens and those written to a cache; the output
    /// count includes reasoning.
    #[serde(rename_all = "camelCase")]
    ModelUsage {
        model, input_tokens | "input_tokens": Option<u64>, output_tokens | "output_tokens": Option<u64>,
        cached_input_tokens | "cached_input_tokens": Option<u64>,
        cache_write_input_tokens | "cache_write_input_tokens": Option<u64>,
        reasoning_tokens | "reasoning_tokens": Option<u64>,
    }
}

/// Records the sum over all models, as counts that do not overlap, together with the original counts.
pub(super) fn record(raw: Raw<'_>, out: &mut Transcript) {
    let Some(raw) = json::non_null(raw) else {
        return;
    };
    let Some(entries) = json::read::<Vec<ModelUsage<'_>>>(raw) else {
        if raw.starts_with('{') {
            out.usage(&json::storable(raw));
        } else {
            out.unknown(raw);
        }
        return;
    };
    let sum = |count: fn(&ModelUsage<'_>) -> Option<u64>| {
        let counts = entries.iter().filter_map(count);
        counts.fold(0_u64, u64::saturating_add)
    };
    let cache_read = sum(|e| e.cached_input_tokens);
    let cache_write = sum(|e| e.cache_write_input_tokens);
    let reasoning = sum(|e| e.reasoning_tokens);
    let input = sum(|e| e.input_tokens).saturating_sub(cache_read.saturating_add(cache_write));
    let output = sum(|e| e.output_tokens).saturating_sub(reasoning);
    if let [only] = entries.as_slice()
        && let Some(model) = json::decoded_string(only.model)
    {
        out.model(&model);
    }
    out.usage(&format!(
        r#"{{"input":{input},"output":{output},"reasoning":{reasoning},"cache_read":{cache_read},"cache_write":{cache_write},"models":{}}}"#,
        json::storable(raw)
    ));
}
