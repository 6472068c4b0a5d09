//! Masks credentials in requests: those recognized by shape, and known secrets (see [`super`]).

use std::ops::Range;
use std::sync::Arc;

use filrouge_types::{
    Channel, ErrorCode, Failure, ItemBody, JsonText, Members, RawJson, Result, Role, TenantId,
    TurnId, select_members,
};

use super::mask::{CredentialPolicy, Masked};
use super::members::{RUNTIME_CONTEXT, mask_runtime_contexts, mask_secret_members};
use super::turn::TurnSecrets;
use super::{mask_json, mask_text};
use crate::core::Core;
use crate::requests::{ErrorBody, FinalizeTurn, StartTurn};
use crate::validate::{ValidatedItem, arguments};
use crate::written::Written;

/// Masks the credentials of one request, and counts them.
pub(crate) struct RequestMasker<'a> {
    policy: CredentialPolicy,
    /// The members of a `runtime_context` that are recorded.
    recorded_context: &'a [String],
    secrets: Option<Arc<TurnSecrets>>,
    masked: Masked,
    refused: Masked,
}

/// The items and the metadata of a turn, masked.
pub(crate) type MaskedTurn = (Vec<ItemBody>, Option<RawJson>);

impl Core {
    /// The `runtime_context` values of an open turn that must not be recorded; `None` if there are none.
    pub(crate) fn secrets_of(&self, turn: TurnId) -> Option<Arc<TurnSecrets>> {
        self.secrets.secrets_of_turn(turn, self.clock.now())
    }

    /// The secrets of a turn that is about to start: the values of `contexts` that do not occur in the allow-listed
    /// members of the [`runtime_contexts`] as they are recorded. `None` if there are none.
    pub(crate) fn starting_secrets(
        &self,
        contexts: &[RawJson],
        request: &StartTurn,
        items: &[ValidatedItem],
    ) -> Option<Arc<TurnSecrets>> {
        if contexts.is_empty() {
            return None;
        }
        let hashed = runtime_contexts(request, items).into_iter();
        let allow = &self.settings.runtime_context_allow;
        let recorded: Vec<RawJson> = hashed.map(|json| select_members(&json, allow).0).collect();
        let in_items = items.iter().map(|item| &item.body);
        let in_items = in_items.filter(|body| body.channel == Channel::Question);
        let in_items: Vec<JsonText> = in_items.filter_map(ItemBody::text).collect();
        let questions = [&request.question_neutral, &request.question_translated];
        let questions: Vec<&JsonText> = questions.into_iter().flatten().chain(&in_items).collect();
        TurnSecrets::from_contexts(contexts, &recorded, &questions)
    }

    /// A masker for writes to a turn with these secrets.
    pub(crate) fn masker(&self, secrets: Option<Arc<TurnSecrets>>) -> RequestMasker<'_> {
        RequestMasker {
            policy: self.settings.credentials,
            recorded_context: &self.settings.runtime_context_allow,
            secrets,
            masked: Masked::default(),
            refused: Masked::default(),
        }
    }

    /// Like [`Self::masker`], for recordings. Credentials are masked even if the policy is to refuse them, because a
    /// stream cannot be refused halfway.
    pub(crate) fn stream_masker(&self, secrets: Option<Arc<TurnSecrets>>) -> RequestMasker<'_> {
        let mut masker = self.masker(secrets);
        if masker.policy == CredentialPolicy::Refuse {
            masker.policy = CredentialPolicy::Mask;
        }
        masker
    }

    /// Hashes addresses and masks credentials in items.
    pub(crate) fn masked_items(
        &self,
        tenant: &TenantId,
        masker: RequestMasker<'_>,
        items: Vec<ValidatedItem>,
    ) -> Result<(Vec<ItemBody>, Masked)> {
        let items = self.hash_addresses_in_items(tenant, items);
        self.mask_with(masker, |masker| masker.mask_items(items))
    }

    /// As [`Self::masked_items`], for a turn without secrets, with the turn's metadata.
    pub(crate) fn masked_turn(
        &self,
        tenant: &TenantId,
        items: Vec<ValidatedItem>,
        metadata: Option<RawJson>,
    ) -> Result<(MaskedTurn, Masked)> {
        let items = self.hash_addresses_in_items(tenant, items);
        let mut metadata = self.hash_addresses(tenant, metadata);
        self.mask_with(self.masker(None), |masker| {
            masker.mask_data(&mut metadata, "metadata")?;
            Ok((masker.mask_items(items)?, metadata))
        })
    }

    /// Runs `mask` on a masker, and returns its result with the counts of what was masked. Credentials for which the
    /// request is refused are added to the engine's counters.
    pub(crate) fn mask_with<T>(
        &self,
        mut masker: RequestMasker<'_>,
        mask: impl FnOnce(&mut RequestMasker<'_>) -> Result<T>,
    ) -> Result<(T, Masked)> {
        let result = mask(&mut masker);
        for (shape, n) in masker.refused.by_shape() {
            self.counters.refused.add(shape, n);
        }
        result.map(|value| (value, masker.masked))
    }

    pub(crate) fn add_masked_counts(&self, masked: &Masked) {
        for (shape, n) in masked.by_shape() {
            self.counters.masked.add(shape, n);
        }
    }

    /// Adds what was masked in a write to the engine's counters, unless the write is a replay. Returns the write with
    /// the number of masked values.
    pub(crate) fn count_masked<T>(&self, written: Written<T>, masked: &Masked) -> Written<T> {
        if !written.replayed {
            self.add_masked_counts(masked);
        }
        Written {
            masked: masked.count,
            ..written
        }
    }
}

/// The `runtime_context` of a start, and those in its metadata and in the metadata of its items.
pub(crate) fn runtime_contexts(request: &StartTurn, items: &[ValidatedItem]) -> Vec<RawJson> {
    let of_items = items.iter().filter_map(|item| item.body.metadata.as_ref());
    let nested = request.metadata.iter().chain(of_items);
    let nested = nested.filter_map(|metadata| {
        let value = Members::parse(metadata.as_str())?.get(RUNTIME_CONTEXT)?;
        Some(RawJson::from_checked(value))
    });
    let own = request.runtime_context.iter().cloned();
    own.chain(nested).collect()
}

impl RequestMasker<'_> {
    fn mask_known_secrets(&mut self, raw: &str) -> Option<String> {
        self.secrets.as_ref()?.mask_json(raw, &mut self.masked)
    }

    /// Masks credentials of both kinds in JSON; `None` if there are none. `field` names the JSON for a refusal's
    /// message.
    ///
    /// # Errors
    /// `credential_refused` if the JSON contains a credential and the policy is to refuse it. Known secrets are always
    /// masked.
    fn mask_both_kinds(&mut self, raw: &str, field: &dyn Fn() -> String) -> Result<Option<String>> {
        let known = self.mask_known_secrets(raw);
        let masked = self.mask_by_policy(known.as_deref().unwrap_or(raw), mask_json, field)?;
        Ok(masked.or(known))
    }

    /// Applies `mask` as the policy says.
    fn mask_by_policy(
        &mut self,
        text: &str,
        mask: fn(&str, &mut Masked) -> Option<String>,
        field: &dyn Fn() -> String,
    ) -> Result<Option<String>> {
        match self.policy {
            CredentialPolicy::Off => Ok(None),
            CredentialPolicy::Mask => Ok(mask(text, &mut self.masked)),
            CredentialPolicy::Refuse => {
                mask(text, &mut self.refused).map_or(Ok(None), |_| Err(self.refusal(&field())))
            }
        }
    }

    fn refusal(&self, field: &str) -> Failure {
        let shapes: Vec<&str> = self.refused.by_shape().map(|(name, _)| name).collect();
        let detail = format!(
            "{field} contains text that has the form of a credential: {}",
            shapes.join(", ")
        );
        Failure::new(ErrorCode::CredentialRefused, detail)
            .with_hint("remove it; or have it masked: secrets.credentials = \"mask\"")
    }

    /// Masks credentials of both kinds in a user's text.
    fn mask_user_text(&mut self, text: &mut Option<JsonText>, field: &str) -> Result<()> {
        if let Some(plain) = text
            && let Some(masked) = self.mask_both_kinds(plain.as_token(), &|| field.to_owned())?
        {
            *plain = token(masked);
        }
        Ok(())
    }

    /// Masks known secrets in a text whose author is not the user.
    pub(crate) fn mask_other_text(&mut self, text: &mut Option<JsonText>) {
        if let Some(plain) = text
            && let Some(masked) = self.mask_known_secrets(plain.as_token())
        {
            *plain = token(masked);
        }
    }

    /// Masks credentials of all kinds in JSON of the application, such as metadata.
    pub(crate) fn mask_data(&mut self, json: &mut Option<RawJson>, field: &str) -> Result<()> {
        let Some(json) = json else {
            return Ok(());
        };
        let field = || field.to_owned();
        let raw = json.as_str();
        let context = mask_runtime_contexts(raw, self.recorded_context, &mut self.masked);
        let raw = context.as_deref().unwrap_or(raw);
        let members = self.mask_by_policy(raw, mask_secret_members, &field)?;
        let both = self.mask_both_kinds(members.as_deref().unwrap_or(raw), &field)?;
        if let Some(masked) = both.or(members).or(context) {
            *json = RawJson::from_checked(masked);
        }
        Ok(())
    }

    /// Masks credentials in a label or title.
    pub(crate) fn mask_label(&mut self, label: &mut Option<Box<str>>, field: &str) -> Result<()> {
        let Some(label) = label else {
            return Ok(());
        };
        let secrets = self.secrets.as_ref();
        let known = secrets.and_then(|secrets| secrets.mask_text(label, &mut self.masked));
        let text = known.as_deref().unwrap_or(label);
        let masked = self.mask_by_policy(text, mask_text, &|| field.to_owned())?;
        if let Some(masked) = masked.or(known) {
            *label = masked.into();
        }
        Ok(())
    }

    /// Masks items. Known secrets are masked everywhere; credentials recognized by shape, in all parts of a user's
    /// items, in the arguments of any author's tool calls, and in metadata, usage and labels.
    fn mask_items(&mut self, items: Vec<ValidatedItem>) -> Result<Vec<ItemBody>> {
        let items = items.into_iter().enumerate();
        items
            .map(|(index, item)| self.mask_item(item, index))
            .collect()
    }

    fn mask_item(&mut self, item: ValidatedItem, index: usize) -> Result<ItemBody> {
        let mut body = item.body;
        let parts = body.parts.as_str();
        let masked = if body.role == Role::User {
            self.mask_both_kinds(parts, &|| format!("items[{index}].parts"))?
        } else if let Some(known) = self.mask_known_secrets(parts) {
            let masked = self.mask_arguments(&known, arguments(&known), index)?;
            Some(masked.unwrap_or(known))
        } else {
            self.mask_arguments(parts, item.arguments, index)?
        };
        if let Some(masked) = masked {
            body.parts = RawJson::from_checked(masked);
        }
        let annotations = body.annotations_mut();
        for (name, json) in annotations.objects {
            self.mask_data(json, name)?;
        }
        for (name, label) in annotations.labels {
            self.mask_label(label, name)?;
        }
        Ok(body)
    }

    /// Masks the arguments of tool calls in the JSON of an item's parts; `None` if nothing is masked. `arguments` has
    /// the byte ranges of the arguments; `index` is the item's in the request.
    fn mask_arguments(
        &mut self,
        parts: &str,
        arguments: Vec<Range<usize>>,
        index: usize,
    ) -> Result<Option<String>> {
        let mut output: Option<String> = None;
        let mut copied = 0;
        for args in arguments {
            let field = || format!("items[{index}].parts: args");
            if let Some(masked) = self.mask_both_kinds(&parts[args.clone()], &field)? {
                let output = output.get_or_insert_default();
                output.push_str(&parts[copied..args.start]);
                output.push_str(&masked);
                copied = args.end;
            }
        }
        Ok(output.map(|output| output + &parts[copied..]))
    }

    /// Masks a turn's start with its items.
    pub(crate) fn mask_start(
        &mut self,
        mut request: StartTurn,
        items: Vec<ValidatedItem>,
    ) -> Result<(StartTurn, Vec<ItemBody>)> {
        self.mask_user_text(&mut request.question_neutral, "question_neutral")?;
        self.mask_user_text(&mut request.question_translated, "question_translated")?;
        let items = self.mask_items(items)?;
        self.mask_other_text(&mut request.answer_neutral);
        self.mask_data(&mut request.metadata, "metadata")?;
        let names = request.application.labels().map(|label| label.name);
        for (label, name) in request.application.labels_mut().into_iter().zip(names) {
            self.mask_label(label, name)?;
        }
        Ok((request, items))
    }

    /// Masks a checkpoint. In its state credentials of both kinds are masked, because no application needs them there.
    pub(crate) fn mask_checkpoint(
        &mut self,
        mut label: Option<Box<str>>,
        state: RawJson,
    ) -> Result<(Option<Box<str>>, RawJson)> {
        self.mask_label(&mut label, "label")?;
        let masked = self.mask_both_kinds(state.as_str(), &|| "state".to_owned())?;
        Ok((label, masked.map_or(state, RawJson::from_checked)))
    }

    /// Masks a turn's end with an answer.
    pub(crate) fn mask_finalize(&mut self, mut request: FinalizeTurn) -> Result<FinalizeTurn> {
        self.mask_other_text(&mut request.answer_neutral);
        self.mask_other_text(&mut request.answer_translated);
        self.mask_data(&mut request.metadata, "metadata")?;
        Ok(request)
    }

    /// Masks a turn's end without an answer: the error, and the text that was shown.
    pub(crate) fn mask_ending(
        &mut self,
        mut error: Option<ErrorBody>,
        mut shown: Option<JsonText>,
    ) -> Result<(Option<ErrorBody>, Option<JsonText>)> {
        if let Some(error) = &mut error {
            let mut code = Some(std::mem::take(&mut error.code));
            self.mask_label(&mut code, "error.code")?;
            self.mask_other_text(&mut error.message);
            error.code = code.unwrap_or_default();
        }
        self.mask_other_text(&mut shown);
        Ok((error, shown))
    }
}

/// Converts a masked token, which is a valid token.
fn token(masked: String) -> JsonText {
    let raw = RawJson::from_checked(masked);
    JsonText::from_raw(raw).unwrap_or_else(|_| JsonText::from_plain(""))
}
