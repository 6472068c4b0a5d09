//! Requests without the credentials that they hold.

use std::ops::Range;
use std::sync::Arc;

use filrouge_types::{
    ErrorCode, Failure, ItemBody, JsonText, RawJson, Role, TenantId, TurnId, select_members,
};

use super::mask::{CredentialPolicy, Masked};
use super::turn::TurnSecrets;
use super::{mask_json, registry::Registry};
use crate::core::Core;
use crate::requests::{ErrorBody, FinalizeTurn, StartTurn};
use crate::validate::{Checked, arguments};
use crate::written::Written;

/// Takes credentials out of one request.
pub(crate) struct Sieve {
    policy: CredentialPolicy,
    secrets: Option<Arc<TurnSecrets>>,
    masked: Masked,
    refused: Masked,
}

impl Core {
    /// What came in the `runtime_context` of an open turn and must not be recorded; `None` when nothing did.
    ///
    /// Whoever writes to a turn by another way than this engine's calls masks it before.
    #[must_use]
    pub fn secrets_of(&self, turn: TurnId) -> Option<Arc<TurnSecrets>> {
        self.secrets.of(turn, self.clock.now())
    }

    /// The registry of what came in the `runtime_context` of open turns.
    pub(crate) const fn secrets(&self) -> &Registry {
        &self.secrets
    }

    /// The secrets that a turn starts with, when it has any: of `context`, what is not kept of the request's own.
    pub(crate) fn starting_secrets(
        &self,
        context: Option<&RawJson>,
        request: &StartTurn,
    ) -> Option<Arc<TurnSecrets>> {
        let hashed = request.runtime_context.as_ref()?;
        let (kept, _) = select_members(hashed, &self.settings.runtime_context_allow);
        let questions = [&request.question_neutral, &request.question_translated];
        let questions: Vec<&JsonText> = questions.into_iter().flatten().collect();
        TurnSecrets::of(context?, &kept, &questions)
    }

    /// A sieve for what is written to a turn of these secrets.
    pub(crate) fn sieve(&self, secrets: Option<Arc<TurnSecrets>>) -> Sieve {
        Sieve {
            policy: self.settings.credentials,
            secrets,
            masked: Masked::default(),
            refused: Masked::default(),
        }
    }

    /// As [`Self::sieve`], for what is recorded while it comes: nothing of it can be refused, so it is masked.
    pub(crate) fn stream_sieve(&self, secrets: Option<Arc<TurnSecrets>>) -> Sieve {
        let mut sieve = self.sieve(secrets);
        if sieve.policy == CredentialPolicy::Refuse {
            sieve.policy = CredentialPolicy::Mask;
        }
        sieve
    }

    /// Items without credentials and addresses.
    pub(crate) fn sifted_items(
        &self,
        tenant: &TenantId,
        sieve: Sieve,
        items: Vec<Checked>,
    ) -> Result<(Vec<ItemBody>, Masked), Failure> {
        let items = self.hashed_items(tenant, items);
        self.sift(sieve, |sieve| sieve.items(items))
    }

    /// Takes credentials out by `take`; a refusal is counted.
    pub(crate) fn sift<T>(
        &self,
        mut sieve: Sieve,
        take: impl FnOnce(&mut Sieve) -> Result<T, Failure>,
    ) -> Result<(T, Masked), Failure> {
        let taken = take(&mut sieve);
        for (shape, n) in sieve.refused.by_shape() {
            self.counters.refused.add(shape, n);
        }
        taken.map(|taken| (taken, sieve.masked))
    }

    pub(crate) fn count_masked(&self, masked: &Masked) {
        for (shape, n) in masked.by_shape() {
            self.counters.masked.add(shape, n);
        }
    }

    /// A write was done: what was masked in it counts, unless it had been done before.
    pub(crate) fn counted<T>(&self, written: Written<T>, masked: &Masked) -> Written<T> {
        if !written.replayed {
            self.count_masked(masked);
        }
        Written {
            masked: masked.count,
            ..written
        }
    }
}

impl Sieve {
    fn known(&mut self, raw: &str) -> Option<String> {
        self.secrets.as_ref()?.mask_json(raw, &mut self.masked)
    }

    /// JSON in which credentials of any kind are masked.
    fn any(&mut self, raw: &str, field: &dyn Fn() -> String) -> Result<Option<String>, Failure> {
        let known = self.known(raw);
        let text = known.as_deref().unwrap_or(raw);
        let masked = match self.policy {
            CredentialPolicy::Off => None,
            CredentialPolicy::Mask => mask_json(text, &mut self.masked),
            CredentialPolicy::Refuse => match mask_json(text, &mut self.refused) {
                Some(_) => return Err(self.refusal(&field())),
                None => None,
            },
        };
        Ok(masked.or(known))
    }

    fn refusal(&self, field: &str) -> Failure {
        let shapes: Vec<&str> = self.refused.by_shape().map(|(name, _)| name).collect();
        let detail = format!(
            "{field} holds what has the form of a credential: {}",
            shapes.join(", ")
        );
        Failure::new(ErrorCode::CredentialRefused, detail)
            .with_hint("take it out; or let it be masked: secrets.credentials = \"mask\"")
    }

    /// What a user says.
    pub(crate) fn said(&mut self, text: &mut Option<JsonText>, field: &str) -> Result<(), Failure> {
        if let Some(said) = text
            && let Some(masked) = self.any(said.as_token(), &|| field.to_owned())?
        {
            *said = token(masked);
        }
        Ok(())
    }

    /// What anybody else says: only what is known to be secret is masked.
    pub(crate) fn told(&mut self, text: &mut Option<JsonText>) {
        if let Some(told) = text
            && let Some(masked) = self.known(told.as_token())
        {
            *told = token(masked);
        }
    }

    /// What an application keeps.
    pub(crate) fn kept(&mut self, json: &mut Option<RawJson>) {
        if let Some(kept) = json
            && let Some(masked) = self.known(kept.as_str())
        {
            *kept = RawJson::from_checked(masked);
        }
    }

    pub(crate) fn label(&mut self, label: &mut Option<Box<str>>) {
        if let (Some(label), Some(secrets)) = (label, &self.secrets)
            && let Some(masked) = secrets.mask_text(label, &mut self.masked)
        {
            *label = masked.into();
        }
    }

    /// Items: all that a user posts, the arguments of tool calls whoever posts them.
    fn items(&mut self, items: Vec<Checked>) -> Result<Vec<ItemBody>, Failure> {
        let items = items.into_iter().enumerate();
        items.map(|(index, item)| self.item(item, index)).collect()
    }

    fn item(&mut self, item: Checked, index: usize) -> Result<ItemBody, Failure> {
        let mut body = item.body;
        let parts = body.parts.as_str();
        let masked = if body.role == Role::User {
            self.any(parts, &|| format!("items[{index}].parts"))?
        } else if let Some(known) = self.known(parts) {
            let masked = self.arguments(&known, arguments(&known), index)?;
            Some(masked.unwrap_or(known))
        } else {
            self.arguments(parts, item.arguments, index)?
        };
        if let Some(masked) = masked {
            body.parts = RawJson::from_checked(masked);
        }
        let around = body.around_mut();
        for (_, json) in around.objects {
            self.kept(json);
        }
        for (_, label) in around.labels {
            self.label(label);
        }
        Ok(body)
    }

    /// Parts in which the arguments of tool calls are masked.
    fn arguments(
        &mut self,
        parts: &str,
        arguments: Vec<Range<usize>>,
        index: usize,
    ) -> Result<Option<String>, Failure> {
        let mut out: Option<String> = None;
        let mut done = 0;
        for args in arguments {
            let field = || format!("items[{index}].parts: args");
            if let Some(masked) = self.any(&parts[args.clone()], &field)? {
                let out = out.get_or_insert_default();
                out.push_str(&parts[done..args.start]);
                out.push_str(&masked);
                done = args.end;
            }
        }
        Ok(out.map(|out| out + &parts[done..]))
    }

    /// A turn's start, and its items.
    pub(crate) fn start(
        &mut self,
        mut request: StartTurn,
        items: Vec<Checked>,
    ) -> Result<(StartTurn, Vec<ItemBody>), Failure> {
        self.said(&mut request.question_neutral, "question_neutral")?;
        self.said(&mut request.question_translated, "question_translated")?;
        let items = self.items(items)?;
        self.told(&mut request.answer_neutral);
        self.kept(&mut request.metadata);
        for label in request.application.labels_mut() {
            self.label(label);
        }
        Ok((request, items))
    }

    /// A checkpoint: what an application keeps, in which nothing secret has to be.
    pub(crate) fn checkpoint(
        &mut self,
        mut label: Option<Box<str>>,
        state: RawJson,
    ) -> Result<(Option<Box<str>>, RawJson), Failure> {
        self.label(&mut label);
        let masked = self.any(state.as_str(), &|| "state".to_owned())?;
        Ok((label, masked.map_or(state, RawJson::from_checked)))
    }

    /// A turn's end with an answer.
    pub(crate) fn finalize(&mut self, mut request: FinalizeTurn) -> FinalizeTurn {
        self.told(&mut request.answer_neutral);
        self.told(&mut request.answer_translated);
        self.kept(&mut request.metadata);
        request
    }

    /// The end of a turn without an answer: the error, and what was shown.
    pub(crate) fn broken(
        &mut self,
        error: Option<ErrorBody>,
        mut shown: Option<JsonText>,
    ) -> (Option<ErrorBody>, Option<JsonText>) {
        let error = error.map(|mut error| {
            let mut code = Some(error.code);
            self.label(&mut code);
            self.told(&mut error.message);
            error.code = code.unwrap_or_default();
            error
        });
        self.told(&mut shown);
        (error, shown)
    }
}

/// A masked token is a token.
fn token(masked: String) -> JsonText {
    let raw = RawJson::from_checked(masked);
    JsonText::from_raw(raw).unwrap_or_else(|_| JsonText::from_plain(""))
}
