//! Random sessions of valid and invalid steps.

use filrouge_types::{Failure, ItemBody, JsonText, RawJson, Role, Variant};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::sessions::items::{raw_item, translated};
use crate::test_session::{TestSession, turn_start};

/// One operation on a session. A refused operation changes nothing.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Start { request: u8, language: u8 },
    Append { request: u8, item: ItemTemplate },
    Finalize { request: u8, language: u8 },
    Fail { request: u8, partial: bool },
    Cancel { request: u8, partial: bool },
    Interrupt { request: u8 },
    Replace { request: u8 },
    RedactTurn { request: u8 },
    Redact { distance: u64 },
}

/// An item without its mark.
#[derive(Debug, Clone)]
pub(crate) struct ItemTemplate {
    role: Role,
    channel: &'static str,
    parts: Vec<&'static str>,
    model: Option<&'static str>,
    translated: bool,
    covers: Option<(u64, u64)>,
    /// Selects the ids of the calls that the item refers to.
    id_choice: u8,
}

const CHANNELS: [&str; 18] = [
    "question",
    "final",
    "partial",
    "plan",
    "thought",
    "observation",
    "tool_call",
    "tool_result",
    "error",
    "system_note",
    "hitl_request",
    "hitl_response",
    "summary",
    "interrupted",
    "cancelled",
    "link",
    "redaction",
    "x-own",
];

/// Parts of texts. In all parts, `@` is replaced by the mark of the item, and `#` and `%` by ids of calls.
const TEXTS: [&str; 12] = [
    r#"{"type":"text","text":"~@~"}"#,
    r#"{"type":"text","text":"~@~ \n\t "}"#,
    r#"{"type":"text","text":"\ud800~@~\udc00\u0000\u001c"}"#,
    r#"{"type":"text","text":" \n\u00a0"}"#,
    r#"{"type":"text","text":"\u001c\u001d"}"#,
    r#"{"type":"code","code":"```~@~```","language":"a\"b"}"#,
    r#"{"type":"link","url":"https://h/~@~","title":"[x]"}"#,
    r#"{"type":"refusal","refusal":"~@~"}"#,
    r#"{"type":"text","text":"first","text":"~@~"}"#,
    r#"{"type":"text","text":["~@~"]}"#,
    r#"{"type":"x-own","text":"~@~"}"#,
    r#"{"type":"error","code":"~@~","message":"m"}"#,
];

const MEDIA: [&str; 10] = [
    r#"{"type":"image_url","image_url":{"url":"https://h/a.png","detail":"low"}}"#,
    r#"{"type":"image_url","url":"data:image/png;base64,iVBORw=="}"#,
    r#"{"type":"image_url","url":"data:image/svg+xml;utf8,<svg/>"}"#,
    r#"{"type":"image_url","url":"data:image/png;base64,iVB*Rw=="}"#,
    r#"{"type":"image","source":{"type":"base64","media_type":"image/webp","data":"UklGRg=="}}"#,
    r#"{"type":"file","filename":"a.pdf","mime":"application/pdf","data":"JVBERg=="}"#,
    r#"{"type":"file","filename":"a\"b\n.md","mime":"text/markdown","data":"aGk="}"#,
    r#"{"type":"file","file_id":"file-abc"}"#,
    r#"{"type":"file","url":"file:///tmp/x","mime":"application/zip"}"#,
    r#"{"type":"file","url":7,"data":{}}"#,
];

const REASONING: [&str; 11] = [
    r#"{"type":"reasoning","text":"~@~"}"#,
    r#"{"type":"reasoning","text":"~@~","provider":"anthropic","signature":"c2ln"}"#,
    r#"{"type":"reasoning","thinking":"","signature":"c2ln","provider":"anthropic"}"#,
    r#"{"type":"reasoning","redacted":"ZGF0YQ==","provider":"anthropic"}"#,
    r#"{"type":"reasoning","id":"rs_@","summary":[{"type":"summary_text","text":"~@~"}],"encrypted_content":"enc","provider":"openai"}"#,
    r#"{"type":"reasoning","id":"rs_1","summary":"~@~","encrypted_content":"enc"}"#,
    r#"{"type":"reasoning","id":"bad id","summary":[1e999],"encrypted_content":"enc"}"#,
    r#"{"type":"reasoning","text":"~@~","signature":"U2ln","provider":"google"}"#,
    r#"{"type":"reasoning","text":"~@~","signature":"not base64!","provider":"google"}"#,
    r#"{"type":"reasoning","text":"~@~","signature":"x","provider":"someone"}"#,
    r#"{"type":"reasoning","text":5,"signature":{"a":1}}"#,
];

const CALLS: [&str; 12] = [
    r##"{"type":"tool_call","call_id":"#","name":"read_file","args":{"m":"~@~"}}"##,
    r##"{"type":"tool_call","call_id":"#","name":"read_file","args":"{\"m\":\"~@~\"}"}"##,
    r##"{"type":"tool_call","call_id":"#","name":"bad name/é","args":"{\"m\": ~@~"}"##,
    r##"{"type":"tool_call","call_id":"#","name":"","args":["~@~",null]}"##,
    r##"{"type":"tool_call","call_id":"#","name":"9a.b:c","args":null}"##,
    r##"{"type":"tool_call","call_id":"# \u0000é 0123456789012345678901234567890123456789012345678901234567890123456789","name":"f","args":{"m":"\ud800~@~","n":1e400}}"##,
    r##"{"type":"tool_call","call_id":"#","name":"f","args":{"m":"~@~"},"signature":"U2ln","provider":"google"}"##,
    r##"{"type":"tool_call","call_id":"#","name":"f","args":{"m":"~@~"},"signature":"?","provider":"google"}"##,
    r##"{"type":"tool_call","name":"f","args":{"m":"~@~"}}"##,
    r##"{"type":"tool_call","call_id":7,"name":{},"args":{"m":"~@~"}}"##,
    r##"{"type":"tool_call","call_id":"#","name":"a","args":{"m":"~@~"}},{"type":"tool_call","call_id":"%","name":"b"}"##,
    r##"{"type":"tool_call","call_id":"%","name":"f","args":{"m":"~@~"}}"##,
];

const RESULTS: [&str; 14] = [
    r##"{"type":"tool_result","call_id":"#","ok":true,"content":"~@~"}"##,
    r##"{"type":"tool_result","call_id":"#","ok":false,"content":"~@~"}"##,
    r##"{"type":"tool_result","call_id":"#","content":{"m":"~@~"}}"##,
    r##"{"type":"tool_result","call_id":"#","ok":false,"error":["~@~",1e999]}"##,
    r##"{"type":"tool_result","call_id":"#","ok":true,"content":[{"type":"text","text":"~@~"},{"type":"image_url","url":"data:image/png;base64,iVBORw=="}]}"##,
    r##"{"type":"tool_result","call_id":"#","ok":false,"content":[{"type":"image_url","url":"data:image/png;base64,iVBORw=="}]}"##,
    r##"{"type":"tool_result","call_id":"#","ok":true,"content":[{"type":"file","file_id":"file-1"},{"type":"refusal","refusal":"~@~"}]}"##,
    r##"{"type":"tool_result","call_id":"#","ok":true,"content":""}"##,
    r##"{"type":"tool_result","call_id":"#","ok":"no","content":-0}"##,
    r##"{"type":"tool_result","call_id":"# \u0000é 0123456789012345678901234567890123456789012345678901234567890123456789","content":"~@~"}"##,
    r##"{"type":"tool_result","content":"~@~"}"##,
    r##"{"type":"tool_result","call_id":"#","content":"~@~"},{"type":"tool_result","call_id":"%","content":null}"##,
    r##"{"type":"tool_result","call_id":"%","ok":true,"content":"~@~"}"##,
    r##"{"type":"tool_result","call_id":"%","ok":true,"content":[[["~@~"]]]}"##,
];

/// The roles and channels that fit parts of this kind: texts, reasoning, calls, or results.
fn fitting_channels(kind: usize) -> Vec<(Role, &'static str)> {
    use Role::{Assistant, System, Tool, User};
    match kind {
        0 => vec![
            (User, "question"),
            (Assistant, "plan"),
            (Assistant, "final"),
            (Assistant, "partial"),
            (Tool, "observation"),
            (System, "system_note"),
            (System, "hitl_request"),
            (User, "hitl_response"),
            (Assistant, "summary"),
            (Assistant, "thought"),
        ],
        1 => vec![(Assistant, "thought"), (Assistant, "plan")],
        2 => vec![(Assistant, "tool_call")],
        _ => vec![(Tool, "tool_result")],
    }
}

fn item_template() -> impl Strategy<Value = ItemTemplate> {
    let texts = prop_oneof![5 => Just(TEXTS[0]), 3 => select(&TEXTS[..]), 2 => select(&MEDIA[..])];
    let mostly_first =
        |parts: &'static [&'static str]| prop_oneof![2 => Just(parts[0]), 2 => select(parts)];
    let fitting = prop_oneof![
        4 => vec(texts, 1..3).prop_map(|parts| (0, parts)),
        2 => select(&REASONING[..]).prop_map(|part| (1, vec![part])),
        4 => mostly_first(&CALLS).prop_map(|part| (2, vec![part])),
        4 => mostly_first(&RESULTS).prop_map(|part| (3, vec![part])),
    ];
    let fitting = fitting.prop_flat_map(|(kind, parts)| {
        select(fitting_channels(kind))
            .prop_map(move |(role, channel)| (role, channel, parts.clone()))
    });
    let all_parts: Vec<&'static str> = [&TEXTS[..], &MEDIA, &REASONING, &CALLS, &RESULTS].concat();
    let roles = vec![Role::User, Role::Assistant, Role::Tool, Role::System];
    let unfitting = (
        select(roles),
        select(&CHANNELS[..]),
        vec(select(all_parts), 0..5),
    );
    let models = vec![
        None,
        None,
        Some("claude-opus-4-5"),
        Some("gpt-5"),
        Some("gemini-3-pro"),
        Some("mystery"),
    ];
    let covers = prop_oneof![3 => Just(None), 1 => (0..9_u64, 0..20_u64).prop_map(Some)];
    let form = prop_oneof![5 => fitting, 1 => unfitting];
    (
        form,
        select(models),
        prop::bool::weighted(0.1),
        covers,
        0..4_u8,
    )
        .prop_map(
            |((role, channel, parts), model, translated, covers, id_choice)| ItemTemplate {
                role,
                channel,
                parts,
                model,
                translated,
                covers,
                id_choice,
            },
        )
}

/// Steps of a session with at most eight requests.
pub(crate) fn steps(max_steps: usize) -> impl Strategy<Value = Vec<Step>> {
    let request = || prop_oneof![4 => 0..3_u8, 1 => 0..8_u8];
    let step = prop_oneof![
        5 => (0..8_u8, 0..4_u8).prop_map(|(request, language)| Step::Start { request, language }),
        24 => (request(), item_template()).prop_map(|(request, item)| Step::Append { request, item }),
        3 => (request(), 0..4_u8).prop_map(|(request, language)| Step::Finalize { request, language }),
        1 => (request(), any::<bool>()).prop_map(|(request, partial)| Step::Fail { request, partial }),
        1 => (request(), any::<bool>()).prop_map(|(request, partial)| Step::Cancel { request, partial }),
        2 => request().prop_map(|request| Step::Interrupt { request }),
        1 => request().prop_map(|request| Step::Replace { request }),
        1 => request().prop_map(|request| Step::RedactTurn { request }),
        2 => (0..8_u64).prop_map(|distance| Step::Redact { distance }),
    ];
    vec(step, 1..max_steps).prop_map(|mut steps| {
        steps.insert(
            0,
            Step::Start {
                request: 0,
                language: 0,
            },
        );
        steps
    })
}

impl ItemTemplate {
    fn item(&self, mark: usize) -> ItemBody {
        let ids = ["c0", "c1", "c2", "c 3\\n"];
        let id = |index: u8| ids[usize::from(index) % ids.len()];
        let parts = format!("[{}]", self.parts.join(","))
            .replace('@', &mark.to_string())
            .replace('#', id(self.id_choice))
            .replace('%', id(self.id_choice + 1));
        let item = raw_item(self.role, self.channel, &parts);
        let covers = self
            .covers
            .map(|(first, last)| format!(r#"{{"covers":[{first},{last}]}}"#));
        let item = ItemBody {
            model: self.model.map(Into::into),
            metadata: covers.map(|c| RawJson::parse(&c).unwrap()),
            ..item
        };
        if self.translated {
            translated(item)
        } else {
            item
        }
    }
}

/// A text in one of two languages, or in both.
fn texts_by_language(language: u8, text: &str) -> [Option<String>; 2] {
    [language != 1, language == 1 || language == 2].map(|is_used| is_used.then(|| text.to_owned()))
}

/// The request of a step: usually a request with an open turn, so that the engine refuses few steps.
fn request_of(test: &TestSession, number: u8) -> String {
    let open = test.open_requests();
    match open.len() {
        0 => format!("r{number}"),
        n if number < 3 => open[usize::from(number) % n].clone(),
        _ => format!("r{number}"),
    }
}

/// Performs a step. The items that it writes contain `mark`.
pub(crate) fn perform(test: &TestSession, step: &Step, mark: usize) {
    let text = format!("~{mark}~");
    let name = |request: &u8| request_of(test, *request);
    let partial = |is_set: &bool| is_set.then_some(text.as_str());
    // A refused step is also a valid case.
    let _ = match step {
        Step::Start { request, language } => start(test, &format!("r{request}"), *language, &text),
        Step::Append { request, item } => {
            let appended = test.try_append(&name(request), vec![item.item(mark)]);
            // If the turn does not exist or has ended, another turn starts.
            appended.or_else(|_| start(test, &format!("n{}", mark % 8), 0, &text))
        }
        Step::Finalize {
            request,
            language: 3,
        } => test.try_finalize(&name(request), None, None),
        Step::Finalize { request, language } => {
            let [neutral, translated] = texts_by_language(*language, &text);
            test.try_finalize(&name(request), neutral.as_deref(), translated.as_deref())
        }
        Step::Fail {
            request,
            partial: is,
        } => test.try_fail(&name(request), partial(is)),
        Step::Cancel {
            request,
            partial: is,
        } => test.try_cancel(&name(request), partial(is)),
        Step::Interrupt { request } => test.try_interrupt(&name(request)),
        Step::Replace { request } => {
            let mut start = turn_start(&format!("x{}", mark % 5), &text);
            start.answer_neutral = Some(JsonText::from_plain(&text));
            test.try_replace(&format!("r{request}"), start)
        }
        Step::RedactTurn { request } => test.try_redact_turn(&format!("r{request}")),
        Step::Redact { distance } => {
            let last = test.items().last().map_or(0, |i| i.seq);
            test.try_redact(&[last.saturating_sub(*distance).max(1)])
        }
    };
}

fn start(test: &TestSession, request: &str, language: u8, text: &str) -> Result<(), Failure> {
    let mut start = turn_start(request, "");
    let [neutral, translated] = texts_by_language(language, text);
    start.question_neutral = neutral.map(|t| JsonText::from_plain(&t));
    start.question_translated = translated.map(|t| JsonText::from_plain(&t));
    test.try_start(start).map(|_| ())
}

/// The languages in which contexts are queried.
pub(crate) const VARIANTS: [Variant; 2] = [Variant::Neutral, Variant::Translated];
