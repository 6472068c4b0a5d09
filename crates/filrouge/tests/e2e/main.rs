//! End-to-end tests: the built binary in a hermetic home folder, driven through its command line and over HTTP.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "tests fail by panicking, and print the folder with their files"
)]

mod access;
mod addresses;
mod audit;
mod audit_failures;
mod audit_rows;
mod bundle;
mod busy;
mod bytes;
mod call_log;
mod caller;
mod calls_config;
mod canary;
mod changes;
mod checkpoints;
#[path = "../../../filrouge-document/tests/document/chromium.rs"]
mod chromium;
mod cli;
mod cli_config;
mod cli_keys;
mod context;
mod copy;
mod copy_postgres;
mod copy_refused;
mod cors;
mod doctor_session;
#[path = "../../../filrouge-document/tests/document/elements.rs"]
mod elements;
mod ephemeral;
mod erase;
mod generated_clients;
mod host;
mod hostile;
#[path = "../../../filrouge-document/tests/document/hostile.rs"]
mod hostile_corpus;
mod hostile_mcp;
mod hostile_sources;
mod hostile_terminal;
mod hot;
mod hot_config;
mod http;
mod http_complete_turns;
mod http_ids;
mod http_input;
mod http_lists;
mod http_turns;
mod identity_turns;
mod import;
mod import_changes;
mod index;
mod injection;
mod issuer;
mod jwt;
mod keyring;
mod kpi;
mod leases;
mod limits;
mod limits_connections;
mod lineage;
mod login;
#[path = "../../../filrouge-document/tests/document/blocks.rs"]
mod markdown_blocks;
mod mcp_clients;
mod mcp_http;
mod mcp_install;
mod mcp_opencode;
mod mcp_stdio;
mod metrics;
mod migrate;
mod models;
mod named_session;
mod node;
mod not_tested;
mod open_streams;
mod openai;
mod openapi;
#[cfg(feature = "otel")]
mod otel;
mod owners;
mod pages_sessions;
mod pdf;
mod persist_trace;
mod postgres;
mod postgres_calls;
mod postgres_disconnects;
mod postgres_down;
mod postgres_histories;
mod postgres_messages;
mod postgres_pooled;
mod postgres_projections;
mod postgres_servers;
mod projected;
mod projections;
mod projections_canaries;
mod projections_history;
mod projections_kills;
mod projections_tables;
mod receiver;
mod redact;
mod redis;
mod redis_copies;
mod redis_files;
mod resume;
mod rollback;
mod search_doctor;
mod search_heavy;
mod search_http;
mod search_ledger;
mod search_opensearch;
mod search_owners;
mod search_redacted;
mod search_sealed;
mod second_identity;
mod secrets;
mod servers;
mod session_tokens;
mod sessions;
mod sessions_tail;
mod similar;
mod source_answers;
mod source_cli;
mod source_import;
mod source_output;
mod spool;
mod stream_formats;
mod stream_limits;
mod stream_tail;
mod streams;
mod tail;
mod tail_client;
mod tamper;
mod technical_status;
mod titles;
mod two_callers;
mod upload_client;
mod vanished;
mod webhooks;
mod webhooks_operator;
mod witness;
mod world;
