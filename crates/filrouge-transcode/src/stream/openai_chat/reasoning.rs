//! Reasoning, which servers send in different ways, some in two at once.

use filrouge_engine::stream::{PieceId, Transcript};

use super::wire::{Detail, Entry, Message};
use crate::stream::json::{self, Raw};

/// The reasoning of one answer.
#[derive(Default)]
pub(super) struct Reasoning {
    alternative: u32,
    /// The growing piece, and its index, if the server sends one.
    growing: Option<(PieceId, Option<u64>)>,
    /// A piece whose seal by its provider has not arrived; the seal may arrive after other text.
    unsealed: Option<PieceId>,
    /// The piece that began last.
    pub(super) last_piece: Option<PieceId>,
}

impl Reasoning {
    pub(super) fn new(alternative: u32) -> Self {
        Self {
            alternative,
            ..Self::default()
        }
    }

    /// Whether a message contains reasoning, or may contain it.
    pub(super) fn is_in(message: &Message<'_>) -> bool {
        let is_nonempty_list = |raw| json::non_null(raw).is_some_and(|list| list != "[]");
        json::non_null(message.reasoning).is_some_and(|text| text != "\"\"")
            || json::non_null(message.reasoning_content).is_some_and(|text| text != "\"\"")
            || is_nonempty_list(message.reasoning_details)
            || is_nonempty_list(message.thinking_blocks)
    }

    /// Ends the growing piece. It is completed unless it awaits a seal.
    pub(super) fn close(&mut self, out: &mut Transcript) {
        if let Some((piece, _)) = self.growing.take()
            && self.unsealed != Some(piece)
        {
            out.finish(piece);
        }
    }

    /// Adds text to the growing piece; begins one if nothing grows.
    fn push(&mut self, text: &str, out: &mut Transcript) -> bool {
        let piece = match self.growing {
            Some((piece, _)) => piece,
            None => self.begin(None, out),
        };
        out.push(piece, text)
    }

    fn begin(&mut self, index: Option<u64>, out: &mut Transcript) -> PieceId {
        self.close(out);
        let piece = out.begin_reasoning(self.alternative);
        self.growing = Some((piece, index));
        self.last_piece = Some(piece);
        piece
    }

    /// Decodes the reasoning of a message; `false` if anything in it has an unknown shape.
    pub(super) fn decode(&mut self, message: &Message<'_>, out: &mut Transcript) -> bool {
        let mut all_known = true;
        let mut has_text = false;
        for raw in [message.reasoning_details, message.thinking_blocks] {
            let Some(list) = json::non_null(raw) else {
                continue;
            };
            let Some(details) = json::read::<Vec<Detail<'_>>>(list) else {
                all_known = false;
                continue;
            };
            // A server that sends both lists sends the same texts in each.
            let is_repeated = has_text;
            for detail in &details {
                let text = detail_text(detail).filter(|_| !is_repeated);
                has_text |= text.is_some();
                all_known &= self.decode_detail(detail, text, out);
            }
        }
        // If the lists have texts, the plain members repeat them.
        let plain = json::nonempty_string(message.reasoning_content)
            .or(json::nonempty_string(message.reasoning));
        if let Some(text) = plain.filter(|_| !has_text) {
            all_known &= self.push(text, out);
        }
        let is_text = |raw| json::non_null(raw).is_none_or(|text| text.starts_with('"'));
        all_known && is_text(message.reasoning_content) && is_text(message.reasoning)
    }

    /// Decodes a thought in a content that is a list. The thought is a text or a list of texts.
    pub(super) fn decode_entry(&mut self, thinking: Raw<'_>, out: &mut Transcript) -> bool {
        if let Some(text) = json::string_content(thinking) {
            return self.push(text, out);
        }
        let entries: Option<Vec<Entry<'_>>> = json::non_null(thinking).and_then(json::read);
        let Some(entries) = entries else {
            return false;
        };
        let mut all_known = true;
        for entry in &entries {
            let text = json::string_content(entry.text);
            all_known &= text.is_some_and(|text| self.push(text, out));
        }
        all_known
    }

    /// Decodes one detail. `text` is its text; `None` if it has none or repeats one.
    fn decode_detail(
        &mut self,
        detail: &Detail<'_>,
        text: Option<&str>,
        out: &mut Transcript,
    ) -> bool {
        let kind = json::nonempty_string(detail.kind).unwrap_or_default();
        let is_text_kind = matches!(kind, "reasoning.text" | "reasoning.summary" | "thinking");
        let signature = json::nonempty_string(detail.signature);
        let data = json::nonempty_string(detail.data);
        if text.is_none() && signature.is_none() && data.is_none() {
            return is_text_kind;
        }
        let provider = provider(kind, json::nonempty_string(detail.format));
        let piece = self.piece_for(detail.index, text.is_none(), out);
        if let Some(provider) = provider {
            out.set(piece, "provider", provider);
            let is_sealed = signature.is_some() || data.is_some();
            self.unsealed = Some(piece).filter(|_| !is_sealed);
        }
        let is_pushed = text.is_none_or(|text| out.push(piece, text));
        if let Some(signature) = signature {
            out.extend(piece, "signature", signature);
        }
        if let Some(data) = data {
            self.record_sealed(piece, provider, data, json::string_token(detail.id), out);
        }
        is_pushed && (is_text_kind || matches!(kind, "reasoning.encrypted" | "redacted_thinking"))
    }

    /// The piece that a detail belongs to: the growing one with its index, else a new one. If nothing grows, a detail
    /// without text (`is_late`) is a seal, and belongs to the piece that awaits one.
    fn piece_for(&mut self, index: Option<u64>, is_late: bool, out: &mut Transcript) -> PieceId {
        match &mut self.growing {
            Some((piece, open_index))
                if open_index.is_none() || index.is_none() || *open_index == index =>
            {
                *open_index = open_index.or(index);
                *piece
            }
            None if is_late => match self.unsealed {
                Some(piece) => piece,
                None => self.begin(index, out),
            },
            _ => self.begin(index, out),
        }
    }

    /// Records data that only its provider can read, in the member in which that provider expects it back.
    fn record_sealed(
        &mut self,
        piece: PieceId,
        provider: Option<&str>,
        data: &str,
        id: Option<&str>,
        out: &mut Transcript,
    ) {
        let token = format!("\"{data}\"");
        match provider {
            Some("\"anthropic\"") => {
                let piece = match out.text(piece) {
                    Some("") => piece,
                    _ => self.begin(None, out),
                };
                out.set(piece, "provider", "\"anthropic\"");
                out.set(piece, "redacted", &token);
            }
            Some("\"google\"") => out.set(piece, "signature", &token),
            _ => {
                let summary = match out.text(piece) {
                    None | Some("") => "[]".to_owned(),
                    Some(text) => format!(r#"[{{"type":"summary_text","text":"{text}"}}]"#),
                };
                if let Some(id) = id {
                    out.set(piece, "id", id);
                }
                out.set(piece, "summary", &summary);
                out.set(piece, "encrypted_content", &token);
            }
        }
    }
}

fn detail_text<'a>(detail: &Detail<'a>) -> Option<&'a str> {
    [detail.text, detail.summary, detail.thinking]
        .into_iter()
        .find_map(json::nonempty_string)
}

/// The provider whose reasoning a detail has, as a JSON string; `None` if it is unknown.
fn provider(kind: &str, format: Option<&str>) -> Option<&'static str> {
    const FORMATS: [(&str, &str); 5] = [
        ("anthropic", "\"anthropic\""),
        ("openai", "\"openai\""),
        ("azure", "\"openai\""),
        ("google", "\"google\""),
        ("xai", "\"xai\""),
    ];
    if matches!(kind, "thinking" | "redacted_thinking") {
        return Some("\"anthropic\"");
    }
    let format = format?;
    let entry = FORMATS
        .iter()
        .find(|(prefix, _)| format.starts_with(prefix));
    entry.map(|(_, provider)| *provider)
}
