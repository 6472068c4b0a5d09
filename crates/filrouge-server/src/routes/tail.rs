//! The live tail of the native API: each item and each draft as JSON (DESIGN §12).

use axum::http::HeaderMap;
use filrouge_engine::following::TailEvent;
use filrouge_http::response::accepted_media_types;
use filrouge_http::tail::{TailFormat, write_event};
use filrouge_types::{ErrorCode, Failure};
use serde::Serialize;

/// Whether the caller requests a stream.
pub(super) fn is_requested(headers: &HeaderMap) -> bool {
    accepted_media_types(headers).any(|media_type| media_type == "text/event-stream")
}

/// Writes the events `item` and `draft`.
pub(super) struct JsonEvents;

impl TailFormat for JsonEvents {
    async fn write(&mut self, events: Vec<TailEvent>, out: &mut Vec<u8>) -> Result<(), Failure> {
        for event in events {
            match event {
                TailEvent::Item(item) => write_event(out, "item", Some(item.seq), &json(&item)?),
                TailEvent::Draft(draft) => write_event(out, "draft", None, &json(&draft)?),
            }
        }
        Ok(())
    }
}

fn json<T: Serialize>(value: &T) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(value).map_err(|e| Failure::new(ErrorCode::Internal, e.to_string()))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, header};

    use super::*;

    fn requests_stream(accept: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(header::ACCEPT, HeaderValue::from_str(value).unwrap());
        }
        is_requested(&headers)
    }

    #[test]
    fn a_stream_is_requested_by_its_media_type() {
        assert!(requests_stream(&["text/event-stream"]));
        assert!(requests_stream(&[
            "application/json;q=0.1, Text/Event-Stream; q=1"
        ]));
        assert!(requests_stream(&["application/json", "text/event-stream"]));
        assert!(!requests_stream(&[]));
        assert!(!requests_stream(&["*/*", "text/event-streams"]));
    }
}
