//! Checks of requests that need no ledger: the limits on sizes, and the form of parts (DESIGN §3, §8).

use std::ops::Range;

use filrouge_store::draft::{is_stream_key, raw_event};
use filrouge_store::rules::TURN_ITEMS_MAX;
use filrouge_types::{ErrorCode, Failure, ItemBody, JsonText, Members, RawJson, Result};

use crate::part_types::{KNOWN, misspelled};
use crate::shared::invalid;

/// The limits on sizes, which are all configurable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The maximum size of an item in bytes: its contents, usage and metadata together.
    pub item_bytes: usize,
    /// The maximum size in bytes of the metadata of a session or a turn, or of an event's detail. Lists contain this
    /// data.
    pub metadata_bytes: usize,
    /// The maximum length in bytes of a label, such as a title or the name of an agent or a model.
    pub label_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            item_bytes: 16 << 20,
            metadata_bytes: 1 << 20,
            label_bytes: 4096,
        }
    }
}

/// Whether a JSON string is a plain word that is spelled with escapes. A plain word consists of lower-case letters,
/// digits and underscores, as all names of filrouge do, and needs no escapes. Strings with other characters may have
/// escapes, because some JSON writers escape slashes, or all characters that are not printable ASCII.
fn is_escaped_word(name: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let decode = |name| JsonText::from_raw(RawJson::from_checked(name));
    name.contains('\\') && decode(name).is_ok_and(|name| name.to_plain().bytes().all(word))
}

/// Whether a part spells its type or a member's name with needless escapes, so that code that compares bytes misses it.
fn has_escaped_words(part: &Members<'_>) -> bool {
    let escapes = |(name, value): &(&str, &str)| {
        is_escaped_word(name) || *name == r#""type""# && is_escaped_word(value)
    };
    part.0.iter().any(escapes)
}

/// The type of a part; an error text if the part has no type, several, or one that is not a string.
fn part_type(part: &Members<'_>) -> Result<String, String> {
    let part_types: Vec<&str> = part.all("type").collect();
    match part_types[..] {
        [part_type] => serde_json::from_str(part_type).map_err(|e| format!("a part's type: {e}")),
        [] => Err("a part has no type".to_owned()),
        _ => Err("a part has its type twice".to_owned()),
    }
}

/// Types of parts that only filrouge may write. With them a caller could, for example, record a redaction that never
/// happened.
const RESERVED: [&str; 4] = ["redaction", "session_closed", "session_link", "turn_status"];

/// Who wrote the items that are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Author {
    /// A caller.
    Caller,
    /// filrouge, or an imported history.
    Engine,
}

/// An item that was checked against the limits.
pub(crate) struct ValidatedItem {
    pub(crate) body: ItemBody,
    /// The byte ranges of the arguments of tool calls in the JSON of the item's parts.
    pub(crate) arguments: Vec<Range<usize>>,
}

impl From<ItemBody> for ValidatedItem {
    /// An item that filrouge wrote itself.
    fn from(body: ItemBody) -> Self {
        let arguments = arguments(body.parts.as_str());
        Self { body, arguments }
    }
}

/// The byte ranges of the arguments of tool calls in `parts`, which must be a JSON array of objects.
pub(crate) fn arguments(parts: &str) -> Vec<Range<usize>> {
    let has = |word: &[u8]| memchr::memmem::find(parts.as_bytes(), word).is_some();
    if !has(b"tool_call") && !has(b"\\u") {
        return Vec::new();
    }
    let members: Vec<Members<'_>> = serde_json::from_str(parts).unwrap_or_default();
    arguments_in(parts, &members)
}

fn arguments_in(parts: &str, members: &[Members<'_>]) -> Vec<Range<usize>> {
    let is_call = |part: &&Members<'_>| {
        part_type(part)
            .is_ok_and(|part_type| matches!(&*part_type, "tool_call" | "tool_call_partial"))
    };
    let arguments = members
        .iter()
        .filter(is_call)
        .flat_map(|part| part.all("args"));
    let range = |arguments: &str| {
        // `arguments` is a slice of `parts`.
        let start = arguments.as_ptr().addr() - parts.as_ptr().addr();
        start..start + arguments.len()
    };
    arguments.map(range).collect()
}

/// Checks that parts are an array of objects with a `type`. A caller's parts must not have a [`RESERVED`] or misspelled
/// type, nor plain words that are spelled with escapes. Returns the byte ranges of the arguments of tool calls.
fn check_parts(parts: &RawJson, author: Author) -> Result<Vec<Range<usize>>> {
    let malformed = |what: String| {
        invalid(what).with_hint(
            r#"parts is an array of objects with a "type", such as [{"type":"text","text":"…"}]"#,
        )
    };
    let members: Vec<Members<'_>> =
        serde_json::from_str(parts.as_str()).map_err(|e| malformed(e.to_string()))?;
    let part_types: Result<Vec<String>, String> = members.iter().map(part_type).collect();
    let part_types = part_types.map_err(malformed)?;
    let is_caller = author == Author::Caller;
    let is_reserved = |part_type: &String| RESERVED.contains(&part_type.as_str());
    if is_caller && part_types.iter().any(is_reserved) {
        return Err(
            invalid("only filrouge writes parts of this type").with_hint(
                "use the call that does it: …/redact, …/link, …/close, …/finalize; or use another type",
            ),
        );
    }
    if part_types.iter().any(String::is_empty) {
        return Err(invalid("a part's type is empty"));
    }
    if is_caller && members.iter().any(has_escaped_words) {
        let what = "a part's type, or the name of one of its members, is spelled with escapes";
        return Err(invalid(what)
            .with_hint(r#"spell them as they are read, such as "type", not "t\u0079pe""#));
    }
    let mut part_types = part_types.iter().filter(|_| is_caller);
    let misspelling = part_types.find_map(|part_type| Some((part_type, misspelled(part_type)?)));
    if let Some((part_type, known)) = misspelling {
        let hint = format!("did you mean {known:?}? known types: {}", KNOWN.join(", "));
        return Err(invalid(format!("unknown type {part_type:?} of a part")).with_hint(hint));
    }
    Ok(arguments_in(parts.as_str(), &members))
}

/// Parts that a provider's stream delivered complete, in the form in which they are recorded. Parts that a caller may
/// not post are put, unchanged, into one part of the type `raw_event`.
pub(crate) fn streamed_parts(parts: String) -> String {
    match check_parts(&RawJson::from_checked(parts.as_str()), Author::Caller) {
        Ok(_) => parts,
        Err(_) => raw_event(&parts).as_str().to_owned(),
    }
}

/// Like [`streamed_parts`], for a single part.
pub(crate) fn streamed_part(part: &str) -> String {
    match check_parts(&RawJson::from_checked(format!("[{part}]")), Author::Caller) {
        Ok(_) => part.to_owned(),
        Err(_) => {
            let wrapped = raw_event(part);
            let array = wrapped.as_str();
            array[1..array.len() - 1].to_owned()
        }
    }
}

fn too_large(field: &str, bytes: usize, max: usize) -> Failure {
    let detail = format!("{field} has {bytes} bytes, at most {max} are allowed");
    Failure::new(ErrorCode::LimitExceeded, detail)
}

fn check_count(items: usize) -> Result<()> {
    if items as u64 > TURN_ITEMS_MAX {
        return Err(ErrorCode::LimitExceeded.failure(format!(
            "a turn has at most {TURN_ITEMS_MAX} items, these are more"
        )));
    }
    Ok(())
}

impl Limits {
    /// Checks the items of one request: their number, their sizes, and that their parts are an array of objects with a
    /// `type`.
    pub(crate) fn check_items(
        &self,
        items: Vec<ItemBody>,
        author: Author,
    ) -> Result<Vec<ValidatedItem>> {
        check_count(items.len())?;
        let items = items.into_iter().enumerate();
        let checked = items.map(|(index, body)| {
            let arguments = check_parts(&body.parts, author).map_err(|failure| Failure {
                detail: format!("items[{index}].parts: {}", failure.detail),
                ..failure
            })?;
            self.check_item(&body, index, author)?;
            Ok(ValidatedItem { body, arguments })
        });
        checked.collect()
    }

    /// Checks the number and the sizes of items as they are about to be written. Their parts were checked before.
    pub(crate) fn check_sizes(&self, items: &[ItemBody]) -> Result<()> {
        check_count(items.len())?;
        let mut items = items.iter().enumerate();
        items.try_for_each(|(index, item)| self.check_item(item, index, Author::Engine))
    }

    /// Checks an item's fields other than its parts, and its total size. `index` is its index in the request.
    fn check_item(&self, item: &ItemBody, index: usize, author: Author) -> Result<()> {
        if author == Author::Caller && item.item_id.as_ref().is_some_and(is_stream_key) {
            let what = "keys of this form are reserved for items of recorded streams";
            return Err(invalid(format!("items[{index}].item_id: {what}"))
                .with_hint("use another form of key; to record a stream, use …/stream"));
        }
        let annotations = item.annotations();
        for (name, json) in annotations.objects {
            self.check_object(json.as_ref(), &format!("items[{index}].{name}"))?;
        }
        for (name, label) in annotations.labels {
            self.check_label(label.as_deref(), name)?;
        }
        self.check_size(item.bytes(), &format!("items[{index}]"))
    }

    pub(crate) fn check_label(&self, text: Option<&str>, field: &str) -> Result<()> {
        match text {
            Some(t) if t.len() > self.label_bytes => {
                Err(too_large(field, t.len(), self.label_bytes))
            }
            Some(t) if t.contains('\0') => Err(invalid(format!("{field} must not hold NUL"))),
            _ => Ok(()),
        }
    }

    /// Checks that a value is a JSON object of bounded size, or absent.
    pub(crate) fn check_object(&self, json: Option<&RawJson>, field: &str) -> Result<()> {
        match json {
            Some(json) if !json.is_object() => {
                Err(invalid(format!("{field} must be a JSON object")))
            }
            Some(json) => self.check_size(json.as_str().len(), field),
            None => Ok(()),
        }
    }

    /// Checks the metadata of a session or a turn, or an event's detail: an object of bounded size, or absent.
    pub(crate) fn check_metadata(&self, json: Option<&RawJson>, field: &str) -> Result<()> {
        self.check_object(json, field)?;
        let bytes = json.map_or(0, |j| j.as_str().len());
        if bytes <= self.metadata_bytes {
            return Ok(());
        }
        Err(too_large(field, bytes, self.metadata_bytes)
            .with_hint("lists show it with every row: store large data in an item"))
    }

    /// Checks that a text has a bounded size, or is absent.
    pub(crate) fn check_text(&self, text: Option<&JsonText>, field: &str) -> Result<()> {
        self.check_size(text.map_or(0, |t| t.as_token().len()), field)
    }

    fn check_size(&self, bytes: usize, field: &str) -> Result<()> {
        if bytes <= self.item_bytes {
            return Ok(());
        }
        Err(too_large(field, bytes, self.item_bytes)
            .with_hint("store large content elsewhere and refer to it by a file or link part"))
    }
}

#[cfg(test)]
mod tests {
    use filrouge_types::{Channel, Role};

    use super::*;

    fn refused(parts: &str, author: Author) -> Option<Failure> {
        let parts = RawJson::parse(parts).unwrap();
        let empty = ItemBody::new(Role::User, Channel::Question, RawJson::from_checked("[]"));
        let mut items = vec![empty; 3];
        items.push(ItemBody::new(Role::Assistant, Channel::ToolCall, parts));
        Limits::default().check_items(items, author).err()
    }

    #[test]
    fn the_ranges_of_the_arguments_of_calls_are_found() {
        let parts = r#"[ {"type":"text","args":1},{"type":"tool_call","args" : {"a":"\u00e9"},"args":[2]},
            {"args":3,"type":"tool\u005fcall_partial"},{"type":"tool_result","args":4}]"#;
        let body = ItemBody::new(
            Role::Tool,
            Channel::ToolCall,
            RawJson::parse(parts).unwrap(),
        );
        let checked = Limits::default().check_items(vec![body.clone()], Author::Engine);
        for item in [checked.unwrap().remove(0), body.into()] {
            let arguments: Vec<&str> = item.arguments.into_iter().map(|at| &parts[at]).collect();
            assert_eq!(arguments, [r#"{"a":"\u00e9"}"#, "[2]", "3"]);
        }
    }

    #[test]
    fn types_and_names_must_be_spelled_without_escapes() {
        for parts in [
            r#"[{"type":"tool\u005fcall","name":"rm"}]"#,
            r#"[{"t\u0079pe":"tool_call","name":"rm"}]"#,
            r#"[{"type":"text","text":"a"},{"type":"tool_call","n\u0061me":"rm"}]"#,
            r#"[{"type":"tool_call","call_id":"c", "\u0061rgs" :{}}]"#,
        ] {
            let failure = refused(parts, Author::Caller).unwrap();
            assert_eq!(failure.code, ErrorCode::Invalid, "{parts}");
            assert!(failure.detail.starts_with("items[3].parts: ") && failure.hint.is_some());
            assert_eq!(refused(parts, Author::Engine), None, "{parts}");
        }
        for parts in [
            r#"[{"type":"text","text":"a \"b\" \u0063"}]"#,
            r#"[{"type":"tool_call","name":"r\u006d","args":{"\u0061":1}}]"#,
            r#"[{"type":"text","gr\u00f6\u00dfe":1,"\u4f60":2}]"#,
            r#"[{"type":"a\/b","c\/d":1,"\u007f":2,"e\"f":3,"\u001d":4}]"#,
        ] {
            assert_eq!(refused(parts, Author::Caller), None, "{parts}");
        }
    }

    #[test]
    fn misspelled_types_are_refused_with_the_known_ones() {
        let parts = r#"[{"type":"text","text":"a"},{"type":"txt","text":"a"}]"#;
        let failure = refused(parts, Author::Caller).unwrap();
        assert_eq!(failure.code, ErrorCode::Invalid);
        assert!(
            failure
                .detail
                .starts_with("items[3].parts: unknown type \"txt\"")
        );
        let hint = failure.hint.unwrap();
        assert!(hint.starts_with("did you mean \"text\"?") && hint.contains("tool_result"));
        assert_eq!(refused(parts, Author::Engine), None);
        let own = r#"[{"type":"acme_widget"}]"#;
        assert_eq!(refused(own, Author::Caller), None);
    }
}
