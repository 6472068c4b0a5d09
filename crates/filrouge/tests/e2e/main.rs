//! End to end: the built binary in a world of its own, driven by its command line and over HTTP.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "tests fail by panicking, and tell where their world was left"
)]

mod access;
mod addresses;
mod attack;
mod audit;
mod audit_failures;
mod audit_rows;
mod bundle;
mod busy;
mod bytes;
mod call_lines;
mod caller;
mod calls_config;
mod canary;
mod changes;
mod checkpoints;
mod cli;
mod cli_config;
mod cli_keys;
mod context;
mod copy;
mod copy_postgres;
mod copy_refused;
mod doctor_session;
mod ephemeral;
mod erase;
mod hot;
mod hot_config;
mod http;
mod http_ids;
mod http_input;
mod http_lists;
mod http_turns;
mod http_whole;
mod identity_turns;
mod import;
mod import_changes;
mod index;
mod issuer;
mod jwt;
mod keys;
mod kpi;
mod leases;
mod limits;
mod limits_connections;
mod lineage;
mod login;
mod mcp_clients;
mod mcp_http;
mod mcp_install;
mod mcp_opencode;
mod mcp_stdio;
mod metrics;
mod migrate;
mod models;
mod not_tested;
mod open_streams;
mod openapi;
#[cfg(feature = "otel")]
mod otel;
mod owners;
mod persist_trace;
mod postgres;
mod postgres_disconnects;
mod postgres_down;
mod postgres_histories;
mod postgres_messages;
mod postgres_pooled;
mod postgres_servers;
mod receiver;
mod redact;
mod redis;
mod redis_copies;
mod resume;
mod rollback;
mod second_identity;
mod secrets;
mod servers;
mod session_tokens;
mod sessions;
mod sessions_tail;
mod source_answers;
mod source_cli;
mod source_import;
mod source_shown;
mod spool;
mod stream_formats;
mod stream_limits;
mod stream_tail;
mod streams;
mod tail;
mod tail_client;
mod tamper;
mod technical_status;
mod upload_client;
mod webhooks;
mod webhooks_operator;
mod world;
