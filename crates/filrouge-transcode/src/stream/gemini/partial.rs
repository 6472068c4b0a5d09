//! Call arguments that arrive in pieces (Vertex, `streamFunctionCallArguments`): each piece names its member, and a
//! text may be split over several.

use filrouge_engine::stream::{PieceId, Transcript};

use crate::stream::json::{self, Raw};

json::members! {
    /// A piece of the arguments.
    #[serde(rename_all = "camelCase")]
    Arg {
        json_path, string_value, number_value, bool_value, will_continue: Option<bool>,
    }
}

/// The arguments of a call while they arrive.
pub(super) struct PartialArgs {
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

    /// Decodes a piece of the arguments. A piece of a nested member, or of an unknown form, is kept separately from the
    /// arguments.
    pub(super) fn add(&mut self, raw: &str, out: &mut Transcript) {
        let arg = json::read::<Arg<'_>>(raw);
        let known = arg.and_then(|arg| Some((member_name(arg.json_path)?, arg)));
        let Some((name, arg)) = known else {
            return out.add_to_list(self.piece, "partial_args", json::storable(raw));
        };
        if self.open_member.as_deref() != Some(name) {
            self.close_text(out);
            let separator = if std::mem::replace(&mut self.has_members, true) {
                ","
            } else {
                "{"
            };
            out.push(self.piece, separator);
            out.push(self.piece, &json::escape_text(&format!("\"{name}\":")));
        }
        if let Some(text) = json::string_content(arg.string_value) {
            if self.open_member.is_none() {
                out.push(self.piece, r#"\""#);
            }
            out.push(self.piece, &json::escape_text(text));
            self.open_member = Some(name.to_owned());
            if arg.will_continue != Some(true) {
                self.close_text(out);
            }
            return;
        }
        self.close_text(out);
        let value = json::non_null(arg.number_value).or_else(|| json::non_null(arg.bool_value));
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
