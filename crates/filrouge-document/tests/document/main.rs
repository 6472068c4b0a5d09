//! Tests of the rendered documents.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod attachments;
mod blocks;
mod browser;
mod chromium;
mod content;
mod elements;
mod golden;
mod hostile;
mod properties;
mod sample;
mod size;
