//! Restored conversations as providers take them: every rule by an example, and all of them at once by the providers'
//! own rules over random conversations.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod anthropic;
mod chat;
mod document;
mod fixtures;
mod gemini;
mod journal;
mod journals;
mod labels;
mod plans;
mod properties;
mod provider_errors;
mod random;
mod record;
mod record_conversation;
mod record_whole;
mod responses;
mod restore_calls;
mod restore_parts;
mod restore_random;
mod restore_turns;
mod restore_windows;
mod sdk;
mod sdk_streams;
mod shared;
mod stream_ag_ui;
mod stream_anthropic;
mod stream_gemini;
mod stream_odd;
mod stream_openai_chat;
mod stream_openai_responses;
mod streams;
