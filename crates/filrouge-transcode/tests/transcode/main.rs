//! Checks that providers accept restored conversations: each rule by an example, and all rules together over random
//! conversations.
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
mod record_complete;
mod record_conversation;
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
