//! Call arguments that arrive in pieces (Vertex, `streamFunctionCallArguments`): each piece names its member, and a
//! text may be split over several.

use filrouge_engine::stream::{PieceNo, Transcript};

use crate::stream::json::{self, Raw};

json::members! {
    /// A piece of the arguments.
    #[serde(rename_all = "camelCase")]
    Arg {
        json_path, string_value, number_value, bool_value, will_continue: Option<bool>,
    }
}

/// The arguments of a call while they arrive.
pub(super) struct Partial {
    pub(super) piece: PieceNo,
    /// The member whose text is incomplete.
    open: Option<String>,
    /// Whether a member has begun, and with it the object.
    has_members: bool,
}

impl Partial {
    pub(super) const fn new(piece: PieceNo) -> Self {
        Self {
            piece,
            open: None,
            has_members: false,
        }
    }

    /// Decodes a piece of the arguments. A piece of a nested member, or of an unknown form, is kept separately from the
    /// arguments.
    pub(super) fn take(&mut self, raw: &str, out: &mut Transcript) {
        let arg = json::read::<Arg<'_>>(raw);
        let known = arg.and_then(|arg| Some((member(arg.json_path)?, arg)));
        let Some((name, arg)) = known else {
            return out.list(self.piece, "partial_args", json::kept(raw));
        };
        if self.open.as_deref() != Some(name) {
            self.close(out);
            let before = if std::mem::replace(&mut self.has_members, true) {
                ","
            } else {
                "{"
            };
            out.push(self.piece, before);
            out.push(self.piece, &json::escaped(&format!("\"{name}\":")));
        }
        if let Some(text) = json::inner(arg.string_value) {
            if self.open.is_none() {
                out.push(self.piece, r#"\""#);
            }
            out.push(self.piece, &json::escaped(text));
            self.open = Some(name.to_owned());
            if arg.will_continue != Some(true) {
                self.close(out);
            }
            return;
        }
        self.close(out);
        let value = json::value(arg.number_value).or_else(|| json::value(arg.bool_value));
        out.push(self.piece, &json::escaped(value.unwrap_or("null")));
    }

    fn close(&mut self, out: &mut Transcript) {
        if self.open.take().is_some() {
            out.push(self.piece, r#"\""#);
        }
    }

    /// Completes the arguments.
    pub(super) fn end(mut self, out: &mut Transcript) {
        self.close(out);
        if self.has_members {
            out.push(self.piece, "}");
        }
        out.finish(self.piece);
    }
}

/// The member that a path names, if the path has the form `$.name`.
fn member(path: Raw<'_>) -> Option<&str> {
    let name = json::inner(path)?.strip_prefix("$.")?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (!name.is_empty() && name.bytes().all(plain)).then_some(name)
}
