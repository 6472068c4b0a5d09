//! Checks of document blocks and of the sources of images and documents.

use serde_json::Value;

use super::{CONTENT_EMPTY, check_content_block};
use crate::media::{self, Accepted};
use crate::shape::{Findings, Object, tag};

pub(super) fn check_document(value: &Value, at: &str, findings: &mut Findings) {
    let optional = ["title", "context", "citations"];
    let Some(block) = Object::open(value, at, &["type", "source"], &optional, findings) else {
        return;
    };
    block.nullable_text("title", findings);
    block.nullable_text("context", findings);
    if let Some(value) = block.get("citations") {
        let at = block.path("citations");
        let citations = Object::open(value, &at, &[], &["enabled"], findings);
        citations.map(|citations| citations.flag("enabled", findings));
    }
    if block.has("source") {
        let types = ["base64", "text", "url", "content", "file"];
        check_source(&block, &types, Accepted::Pdf, findings);
    }
}

pub(super) fn check_source(
    block: &Object<'_>,
    types: &[&str],
    accepted: Accepted,
    findings: &mut Findings,
) {
    let Some(value) = block.get("source") else {
        return;
    };
    let at = block.path("source");
    let Some(source_type) = tag(value, "type", types, &at, findings) else {
        return;
    };
    let source_members: &[&str] = match source_type {
        "base64" | "text" => &["type", "media_type", "data"],
        "url" => &["type", "url"],
        "file" => &["type", "file_id"],
        _ => &["type", "content"],
    };
    let Some(source) = Object::open(value, &at, source_members, &[], findings) else {
        return;
    };
    let accepted = if source_type == "text" {
        Accepted::Plain
    } else {
        accepted
    };
    if let Some(name) = source.text("media_type", findings) {
        media::check_media_type(name, accepted, &source.path("media_type"), findings);
    }
    match source_type {
        "base64" => {
            if let Some(data) = source.text("data", findings) {
                media::check_base64(data, &source.path("data"), findings);
            }
        }
        "url" => {
            if let Some(url) = source.text("url", findings) {
                media::check_link(url, &["http", "https"], &source.path("url"), findings);
            }
        }
        "content" => check_nested_content(&source, findings),
        _ => {
            for key in ["data", "file_id"] {
                source.filled(key, CONTENT_EMPTY, findings);
            }
        }
    }
}

/// Checks the content of a document whose source has the type `content`: a string, or text and image blocks.
fn check_nested_content(source: &Object<'_>, findings: &mut Findings) {
    let parts = source.parts("content", CONTENT_EMPTY, false, findings);
    for (index, part) in parts.iter().enumerate() {
        let at = format!("{}[{index}]", source.path("content"));
        if let Some(block_type) = tag(part, "type", &["text", "image"], &at, findings) {
            check_content_block(block_type, part, &at, findings);
        }
    }
}
