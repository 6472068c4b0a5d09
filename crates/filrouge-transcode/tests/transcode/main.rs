//! Tests of rendered contexts and of recorded streams. Providers must accept every restored conversation: each rule has
//! an example, and random conversations check all rules together.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod anthropic;
mod chat;
mod context_page;
mod fixtures;
mod gemini;
mod labels;
mod notes;
mod plans;
mod properties;
mod provider_errors;
mod random;
mod record;
mod record_complete;
mod record_conversation;
mod responses;
mod restore_calls;
mod restore_languages;
mod restore_parts;
mod restore_random;
mod restore_turns;
mod restore_windows;
mod sdk;
mod sdk_streams;
mod sessions;
mod shared;
mod stream_ag_ui;
mod stream_anthropic;
mod stream_edge_cases;
mod stream_gemini;
mod stream_openai_chat;
mod stream_openai_responses;
mod streams;
mod test_session;
