//! Which tenants, channels and fields a projection has, and what is masked in them.

use std::collections::{BTreeSet, HashMap};

use filrouge_engine::{Masked, mask_json, mask_text};
use filrouge_types::{
    Channel, Item, JsonText, RawJson, Session, TenantId, Turn, replace_lone_surrogates,
};
use serde_json::{Map, Value, json};

use crate::personal::mask_personal;
use crate::target::SessionUpdate;

/// The version of what is masked. A projection with rows of another one is rebuilt.
const MASKS_VERSION: u32 = 2;

filrouge_types::words!(
    /// A part of sessions that a projection can leave out.
    pub enum Field: "field" {
        /// Titles of sessions.
        Title => "title",
        /// The ids of owners, and of the identities of turns.
        Identity => "identity",
        /// Metadata of sessions, turns and items.
        Metadata => "metadata",
        /// Token counts and costs of items.
        Usage => "usage",
        /// The labels of sessions' states.
        State => "state",
        /// Events.
        Events => "events",
        /// The details of events.
        EventDetails => "event_details",
        /// Checkpoints.
        Checkpoints => "checkpoints",
    }
);

/// The part of a ledger that a projection has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The tenants; `None` for all.
    pub tenants: Option<BTreeSet<TenantId>>,
    /// The channels of items; `None` for all.
    pub channels: Option<BTreeSet<Channel>>,
    /// The parts that are left out.
    pub without: BTreeSet<Field>,
    /// Whether e-mail addresses, phone numbers and IBANs are masked. Credentials always are.
    pub mask_personal_data: bool,
}

impl Default for Selection {
    /// All tenants and channels, and everything but checkpoints, which hold the application's state.
    fn default() -> Self {
        Self {
            tenants: None,
            channels: None,
            without: BTreeSet::from([Field::Checkpoints]),
            mask_personal_data: false,
        }
    }
}

impl Selection {
    /// Whether the tenant's sessions are selected.
    #[must_use]
    pub fn has_tenant(&self, tenant: &TenantId) -> bool {
        let tenants = self.tenants.as_ref();
        tenants.is_none_or(|tenants| tenants.contains(tenant))
    }

    /// Whether the questions of a tenant are selected, and with `with_owners` every owner's id.
    pub(crate) fn has_questions(&self, tenant: &TenantId, with_owners: bool) -> bool {
        let has_owners = !self.leaves_out(Field::Identity) && !self.mask_personal_data;
        self.has_tenant(tenant)
            && self.has_channel(&Channel::Question)
            && (has_owners || !with_owners)
    }

    fn has_channel(&self, channel: &Channel) -> bool {
        let channels = self.channels.as_ref();
        channels.is_none_or(|channels| channels.contains(channel))
    }

    fn leaves_out(&self, field: Field) -> bool {
        self.without.contains(&field)
    }

    /// The settings as text, which changes whenever the rows of a session could.
    pub(crate) fn fingerprint(&self) -> String {
        let words = |channels: &BTreeSet<Channel>| -> Vec<String> {
            channels.iter().map(Channel::to_string).collect()
        };
        let without = self.without.iter().map(|field| field.as_str());
        let masks = match self.mask_personal_data {
            true => Value::from(MASKS_VERSION),
            false => Value::from(false),
        };
        json!({
            "tenants": self.tenants,
            "channels": self.channels.as_ref().map(words),
            "without": without.collect::<Vec<_>>(),
            "mask_personal_data": masks,
        })
        .to_string()
    }

    /// Leaves out and masks what the settings say.
    pub(crate) fn apply(&self, update: &mut SessionUpdate) {
        let recorded = &mut update.recorded;
        self.apply_to_session(&mut recorded.session);
        for (turn, items) in &mut recorded.turns {
            self.apply_to_turn(turn);
            self.apply_to_items(items);
        }
        self.apply_to_items(&mut recorded.loose);
        if self.leaves_out(Field::Events) {
            update.events.clear();
        }
        for event in &mut update.events {
            if self.leaves_out(Field::EventDetails) {
                event.detail = None;
            }
            event.detail.iter_mut().for_each(|json| self.mask(json));
        }
        if self.leaves_out(Field::Checkpoints) {
            update.checkpoints.clear();
        }
        for checkpoint in &mut update.checkpoints {
            self.mask(&mut checkpoint.state);
        }
    }

    fn apply_to_session(&self, session: &mut Session) {
        let title_is_of_question =
            session.title_is_derived && !self.has_channel(&Channel::Question);
        if self.leaves_out(Field::Title) || title_is_of_question {
            session.title = None;
        }
        if self.leaves_out(Field::State) {
            session.state = None;
        }
        if self.leaves_out(Field::Metadata) {
            session.metadata = RawJson::from_checked("{}");
        }
        let is_personal = |id: &str| self.mask_personal_data && mask_personal(id).is_some();
        if self.leaves_out(Field::Identity)
            || session
                .identity_id
                .as_ref()
                .is_some_and(|id| is_personal(id.as_str()))
        {
            session.identity_id = None;
        }
        for label in [&mut session.title, &mut session.state]
            .into_iter()
            .flatten()
        {
            if let Some(masked) = self.masked_text(label) {
                *label = masked.into();
            }
        }
        self.mask(&mut session.metadata);
    }

    fn apply_to_turn(&self, turn: &mut Turn) {
        if !self.has_channel(&Channel::Question) {
            (turn.question_neutral, turn.question_translated) = (None, None);
        }
        if !self.has_channel(&Channel::Final) {
            (turn.answer_neutral, turn.answer_translated) = (None, None);
        }
        if self.leaves_out(Field::Metadata) {
            turn.metadata = RawJson::from_checked("{}");
        }
        let is_personal = |id: &str| self.mask_personal_data && mask_personal(id).is_some();
        if self.leaves_out(Field::Identity)
            || turn
                .identity_id
                .as_ref()
                .is_some_and(|id| is_personal(id.as_str()))
        {
            turn.identity_id = None;
        }
        let texts = [
            &mut turn.question_neutral,
            &mut turn.question_translated,
            &mut turn.answer_neutral,
            &mut turn.answer_translated,
        ];
        for text in texts.into_iter().flatten() {
            if let Some(masked) = self.masked_text(&text.to_plain()) {
                *text = JsonText::from_plain(&masked);
            }
        }
        self.mask(&mut turn.metadata);
    }

    fn apply_to_items(&self, items: &mut Vec<Item>) {
        items.retain(|item| self.has_channel(&item.body.channel));
        for body in items.iter_mut().map(|item| &mut item.body) {
            if self.leaves_out(Field::Metadata) {
                body.metadata = None;
            }
            if self.leaves_out(Field::Usage) {
                body.usage = None;
            }
            self.mask(&mut body.parts);
            body.metadata.iter_mut().for_each(|json| self.mask(json));
        }
    }

    /// The text with masks; `None` if nothing is masked in it.
    fn masked_text(&self, text: &str) -> Option<String> {
        let without_credentials = mask_text(text, &mut Masked::default());
        let text = without_credentials.as_deref().unwrap_or(text);
        let masked = self
            .mask_personal_data
            .then(|| mask_personal(text))
            .flatten();
        masked.or(without_credentials)
    }

    /// Masks the strings of a JSON value and the names of its members. A value that cannot be parsed becomes `null`.
    fn mask(&self, json: &mut RawJson) {
        if let Some(masked) = mask_json(json.as_str(), &mut Masked::default()) {
            *json = RawJson::from_checked(masked);
        }
        if !self.mask_personal_data {
            return;
        }
        let parsed = serde_json::from_str(&replace_lone_surrogates(json.as_str()));
        let mut value = parsed.unwrap_or(Value::Null);
        if mask_strings(&mut value) || value.is_null() {
            *json = RawJson::from_checked(value.to_string());
        }
    }
}

/// Masks personal data in the strings of a value, and in the names of members. Returns whether there was any.
fn mask_strings(value: &mut Value) -> bool {
    match value {
        Value::String(text) => match mask_personal(text) {
            Some(masked) => {
                *text = masked;
                true
            }
            None => false,
        },
        Value::Array(values) => values
            .iter_mut()
            .fold(false, |any, value| mask_strings(value) | any),
        Value::Object(members) => {
            let any = members
                .values_mut()
                .fold(false, |any, value| mask_strings(value) | any);
            mask_names(members) | any
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Masks personal data in the names of members. Of names that become equal, the later ones get a number, so that no
/// member is lost. Returns whether there was any.
fn mask_names(members: &mut Map<String, Value>) -> bool {
    if members.keys().all(|name| mask_personal(name).is_none()) {
        return false;
    }
    let mut numbers: HashMap<String, u64> = HashMap::new();
    for (name, value) in std::mem::take(members) {
        let name = mask_personal(&name).unwrap_or(name);
        let mut unique = name.clone();
        while members.contains_key(&unique) {
            let number = numbers.entry(name.clone()).or_insert(1);
            *number += 1;
            unique = format!("{name} {number}");
        }
        members.insert(unique, value);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_members_are_masked_and_no_member_is_lost() {
        let selection = Selection {
            mask_personal_data: true,
            ..Selection::default()
        };
        let masked = |json: &str| {
            let mut json = RawJson::from_checked(json);
            selection.mask(&mut json);
            serde_json::from_str::<Value>(json.as_str()).unwrap()
        };
        assert_eq!(
            masked(
                r#"{"ann@example.org":1,"bob@example.org":{"+49 30 1234567":["eve@example.org"]},"[masked:email]":3,"plain":4}"#
            ),
            json!({
                "[masked:email]": 3,
                "[masked:email] 2": 1,
                "[masked:email] 3": { "[masked:phone]": ["[masked:email]"] },
                "plain": 4,
            })
        );
        let many: Map<String, Value> = (0..1000)
            .map(|n| (format!("user{n}@example.org"), Value::from(n)))
            .collect();
        let many = masked(&Value::Object(many).to_string());
        assert_eq!(many.as_object().unwrap().len(), 1000);
        assert!(!many.to_string().contains("example.org"));
    }
}
