//! What a document shows of a conversation, when a part of it is left out.

use filrouge_types::{Channel, Item, Members, RawJson, Role, Turn, replace_lone_surrogates};
use serde_json::value::RawValue;

use crate::part::{Kind, parse_known};

/// What a document shows besides questions and answers. Texts are shown as they are, whatever they mention. If anything
/// is left out, so is what cannot be classified: notes, channels and parts of unknown kinds, further fields, and usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// Reasoning and plans.
    pub reasoning: bool,
    /// Tool calls and their results.
    pub tools: bool,
    /// The names of end users, agents and models, and the labels of turns.
    pub names: bool,
}

impl Shown {
    /// Everything.
    pub const ALL: Self = Self {
        reasoning: true,
        tools: true,
        names: true,
    };

    /// Removes from items what is not shown, and items of which nothing is shown.
    pub fn reduce_items(self, items: &mut Vec<Item>) {
        if self == Self::ALL {
            return;
        }
        items.retain_mut(|item| self.shows_channel(item) && self.reduce_parts(item));
        for item in items {
            item.body.usage = None;
            if !self.names {
                (item.body.agent, item.body.model) = (None, None);
            }
        }
    }

    /// Removes from a turn's facts what is not shown.
    pub fn reduce_turn(self, turn: &mut Turn) {
        if !self.names {
            turn.identity_id = None;
            for label in turn.application.labels_mut() {
                *label = None;
            }
        }
    }

    fn shows_channel(self, item: &Item) -> bool {
        let of_tool = item.body.role == Role::Tool;
        let is_permitted = match item.body.channel {
            Channel::Thought | Channel::Plan => self.reasoning,
            Channel::ToolCall | Channel::ToolResult => self.tools,
            // Both repeat what the agent has thought, and what tools have returned.
            Channel::Observation | Channel::Summary => self.reasoning && self.tools,
            Channel::SystemNote | Channel::Link | Channel::Redaction | Channel::Other(_) => false,
            _ => true,
        };
        is_permitted && (self.tools || !of_tool)
    }

    /// Removes the parts of an item that are not shown. Returns whether the item is shown: a part of it, or that it was
    /// redacted or had none.
    fn reduce_parts(self, item: &mut Item) -> bool {
        let (kept, had_none) = {
            let json = replace_lone_surrogates(item.body.parts.as_str());
            let parts: Vec<&RawValue> = serde_json::from_str(&json).unwrap_or_default();
            let kept = parts.iter().filter_map(|raw| self.reduce_part(raw.get()));
            (kept.collect::<Vec<String>>(), parts.is_empty())
        };
        item.body.parts = RawJson::from_checked(format!("[{}]", kept.join(",")));
        had_none || !kept.is_empty()
    }

    /// A part with only the fields that are interpreted; `None` if it is not shown.
    fn reduce_part(self, raw: &str) -> Option<String> {
        let part = parse_known(raw)?;
        let is_shown = match part.kind {
            Kind::Reasoning(_) => self.reasoning,
            Kind::ToolCall(_) | Kind::ToolResult(_) => self.tools,
            Kind::Redaction(_) | Kind::Other(_) => false,
            _ => true,
        };
        // The source of an error is an agent, a model or a tool.
        let hides_source = matches!(part.kind, Kind::Error(_)) && !(self.names && self.tools);
        let further = part.other_members.unwrap_or_else(|| "{}".into());
        let further = Members::parse(&further)?;
        let mut further: Vec<_> = further.iter().map(|(name, _)| name).collect();
        if hides_source {
            further.push("source".into());
        }
        if !is_shown || further.is_empty() {
            return is_shown.then(|| raw.to_owned());
        }
        let members = Members::parse(raw)?;
        let named = members.0.iter().zip(members.iter());
        let kept = named.filter(|(_, (name, _))| !further.contains(name));
        let kept: Vec<String> = kept
            .map(|((name, value), _)| format!("{name}:{value}"))
            .collect();
        let reduced = format!("{{{}}}", kept.join(","));
        // Fields of an inner object are still in it, so such a part is left out.
        let is_clean = parse_known(&reduced).is_some_and(|part| part.other_members.is_none());
        is_clean.then_some(reduced)
    }
}

#[cfg(test)]
mod tests {
    use filrouge_types::{ItemBody, Timestamp};

    use super::*;
    use crate::{PartView, Redactions, html_items};

    fn item(seq: u64, role: Role, channel: Channel, parts: &str) -> Item {
        let mut body = ItemBody::new(role, channel, RawJson::parse(parts).unwrap());
        body.agent = Some("agent-canary".into());
        body.model = Some("model-canary".into());
        body.usage = Some(RawJson::parse(r#"{"usage_canary":1}"#).unwrap());
        Item {
            seq,
            turn_id: None,
            created_at: Timestamp::from_micros(0),
            redacted: false,
            body,
        }
    }

    fn items() -> Vec<Item> {
        let answer = r#"[{"type":"reasoning","text":"inner-canary"},{"type":"hologram","x":"unknown-canary"},
            {"type":"text","text":"the answer","further":"field-canary"},{"type":"tool_call","name":"tool-canary","args":{}}]"#;
        vec![
            item(
                1,
                Role::User,
                Channel::Question,
                r#"[{"type":"text","text":"the question"}]"#,
            ),
            item(
                2,
                Role::Assistant,
                Channel::Thought,
                r#"[{"type":"text","text":"thought-canary"}]"#,
            ),
            item(3, Role::Assistant, Channel::Final, answer),
            item(
                4,
                Role::Tool,
                Channel::ToolResult,
                r#"[{"type":"tool_result","content":"result-canary"}]"#,
            ),
            item(
                5,
                Role::System,
                Channel::SystemNote,
                r#"[{"type":"text","text":"note-canary"}]"#,
            ),
            item(
                6,
                Role::System,
                Channel::from_word("own"),
                r#"[{"type":"text","text":"own-canary"}]"#,
            ),
        ]
    }

    /// The words with `canary` that the document shows.
    fn canaries(shown: Shown) -> Vec<&'static str> {
        let mut items = items();
        shown.reduce_items(&mut items);
        let mut html = String::new();
        let view = PartView {
            max_bytes: usize::MAX,
            ..PartView::default()
        };
        let frame = (&Redactions::from_items(&[]), &view);
        html_items(None, &items, frame, &mut html).unwrap();
        assert!(
            html.contains("the question") && html.contains("the answer"),
            "{html}"
        );
        let words = [
            "agent-canary",
            "model-canary",
            "usage canary",
            "inner-canary",
            "unknown-canary",
            "field-canary",
            "tool-canary",
            "thought-canary",
            "result-canary",
            "note-canary",
            "own-canary",
        ];
        words
            .into_iter()
            .filter(|word| html.contains(word))
            .collect()
    }

    #[test]
    fn only_what_is_chosen_is_shown() {
        assert_eq!(canaries(Shown::ALL).len(), 11);
        let nothing = Shown {
            reasoning: false,
            tools: false,
            names: false,
        };
        assert_eq!(canaries(nothing), [""; 0]);
        let reasoning = Shown {
            reasoning: true,
            ..nothing
        };
        assert_eq!(canaries(reasoning), ["inner-canary", "thought-canary"]);
        let tools = Shown {
            tools: true,
            ..nothing
        };
        assert_eq!(canaries(tools), ["tool-canary", "result-canary"]);
        let names = Shown {
            names: true,
            ..nothing
        };
        assert_eq!(canaries(names), ["agent-canary", "model-canary"]);
    }

    #[test]
    fn a_redacted_item_still_says_so() {
        let mut items = items();
        items[0].redacted = true;
        items[0].body.parts = RawJson::parse("[]").unwrap();
        let shown = Shown {
            tools: false,
            ..Shown::ALL
        };
        shown.reduce_items(&mut items);
        assert!(items[0].redacted && items[0].seq == 1);
    }

    #[test]
    fn unknown_fields_of_inner_objects_are_not_shown() {
        let file = r#"[{"type":"file","file":{"filename":"a","file_data":"data:text/plain;base64,AAAA","x":"canary"}}]"#;
        let mut items = vec![item(1, Role::User, Channel::Question, file)];
        let shown = Shown {
            names: false,
            ..Shown::ALL
        };
        shown.reduce_items(&mut items);
        assert!(
            !items
                .iter()
                .any(|item| item.body.parts.as_str().contains("canary"))
        );
    }

    #[test]
    fn the_source_of_an_error_is_a_name() {
        let error =
            r#"[{"type":"error","code":"overloaded","message":"too much","source":"canary"}]"#;
        let source_is_shown = |shown: Shown| {
            let mut items = vec![item(1, Role::Assistant, Channel::Error, error)];
            shown.reduce_items(&mut items);
            let parts = items[0].body.parts.as_str();
            assert!(parts.contains("too much"), "{parts}");
            parts.contains("canary")
        };
        assert!(source_is_shown(Shown::ALL));
        let without_reasoning = Shown {
            reasoning: false,
            ..Shown::ALL
        };
        assert!(source_is_shown(without_reasoning));
        for (tools, names) in [(false, true), (true, false)] {
            let shown = Shown {
                reasoning: true,
                tools,
                names,
            };
            assert!(!source_is_shown(shown));
        }
    }
}
