//! Call arguments that arrive in fragments (Vertex, `streamFunctionCallArguments`): each fragment names its member, and
//! a text may be split over several.

use filrouge_engine::stream::{PieceId, Transcript};

use crate::stream::json::{self, Raw};

json::members! {
    /// A fragment of the arguments.
    #[serde(rename_all = "camelCase")]
    Fragment {
        json_path, string_value, number_value, bool_value, will_continue: Option<bool>,
    }
}

/// The arguments of a call while they arrive. They are written as the content of a JSON string, so quotes and texts are
/// escaped once more.
pub(super) struct PartialArgs {
    /// The transcript's piece for the whole call, to which all fragments are added.
    pub(super) piece: PieceId,
    /// The member whose text is incomplete.
    open_member: Option<String>,
    /// Whether a member has begun, and with it the object.
    has_members: bool,
}

impl PartialArgs {
    pub(super) const fn new(piece: PieceId) -> Self {
        Self {
            piece,
            open_member: None,
            has_members: false,
        }
    }

    /// Decodes a fragment of the arguments. A fragment of a nested member, or of an unknown form, is kept separately,
    /// in the list `partial_args`.
    pub(super) fn add(&mut self, raw: &str, out: &mut Transcript) {
        let fragment = json::read::<Fragment<'_>>(raw);
        let named =
            fragment.and_then(|fragment| Some((member_name(fragment.json_path)?, fragment)));
        let Some((name, fragment)) = named else {
            return out.add_to_list(self.piece, "partial_args", json::storable(raw));
        };
        if self.open_member.as_deref() != Some(name) {
            self.close_text(out);
            out.push(self.piece, if self.has_members { "," } else { "{" });
            self.has_members = true;
            out.push(self.piece, &json::escape_text(&format!("\"{name}\":")));
        }
        if let Some(text) = json::string_content(fragment.string_value) {
            if self.open_member.is_none() {
                out.push(self.piece, r#"\""#);
            }
            out.push(self.piece, &json::escape_text(text));
            self.open_member = Some(name.to_owned());
            if fragment.will_continue != Some(true) {
                self.close_text(out);
            }
            return;
        }
        self.close_text(out);
        let value =
            json::non_null(fragment.number_value).or_else(|| json::non_null(fragment.bool_value));
        out.push(self.piece, &json::escape_text(value.unwrap_or("null")));
    }

    fn close_text(&mut self, out: &mut Transcript) {
        if self.open_member.take().is_some() {
            out.push(self.piece, r#"\""#);
        }
    }

    /// Completes the arguments.
    pub(super) fn finish(mut self, out: &mut Transcript) {
        self.close_text(out);
        if self.has_members {
            out.push(self.piece, "}");
        }
        out.finish(self.piece);
    }
}

/// The member that a path names, if the path has the form `$.name`.
fn member_name(path: Raw<'_>) -> Option<&str> {
    let name = json::string_content(path)?.strip_prefix("$.")?;
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (!name.is_empty() && name.bytes().all(is_word)).then_some(name)
}
