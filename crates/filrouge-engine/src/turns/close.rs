//! Ends turns: finalize, fail, cancel (DESIGN §4.3, §4.4).

use std::sync::{Arc, OnceLock};

use filrouge_store::chain::fingerprint;
use filrouge_store::command::{Close, Ending, Scope, Write};
use filrouge_store::record::Entry;
use filrouge_types::{
    Channel, Failure, ItemBody, JsonText, RawJson, Role, SessionId, Turn, TurnId, Variant,
};

use crate::caller::{Caller, Permission};
use crate::calls::fenced_scope;
use crate::engine::Turns;
use crate::record_policy::{Omissions, kept_metadata};
use crate::requests::{CancelTurn, ErrorBody, FailTurn, FinalizeTurn, optional_bytes};
use crate::secrets::Masked;
use crate::shared::invalid;
use crate::written::Written;

impl Turns {
    /// Ends a turn with an answer.
    ///
    /// # Errors
    /// `answer_missing`, `turn_closed`, `turn_mismatch`, `idempotency_mismatch`, and the errors of [`Self::append`].
    pub async fn finalize(
        &self,
        caller: &Caller,
        session_id: SessionId,
        turn_id: TurnId,
        mut request: FinalizeTurn,
    ) -> Result<Written<Turn>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let limits = self.limits();
        limits.check_metadata(request.metadata.as_ref(), "metadata")?;
        limits.check_text(request.answer_neutral.as_ref(), "answer_neutral")?;
        limits.check_text(request.answer_translated.as_ref(), "answer_translated")?;
        let scope = &fenced_scope(scope, request.fence, request.release)?;
        // The fingerprint identifies retries, so it is computed from the request before anything is left out or masked.
        let fingerprint = self.keyed_fingerprint(finalize_fingerprint(&request));
        let mut omissions = Omissions::default();
        if request.metadata.is_some() {
            let retention = self.retention(scope, &session_id).await?;
            request.metadata = self.hash_addresses(&scope.tenant, request.metadata);
            kept_metadata(&retention, &mut request.metadata, &mut omissions);
        }
        let masker = self.masker(self.secrets_of(turn_id));
        let (request, masked) = self.mask_with(masker, |masker| masker.mask_finalize(request))?;
        let close = Close {
            session_id,
            turn_id,
            fingerprint,
            stream: None,
            request_id: request.request_id,
            ending: Ending::Finalize {
                neutral: request.answer_neutral,
                translated: request.answer_translated,
                fallback: request.answer_translated_is_fallback,
            },
            metadata: request.metadata,
            packed: OnceLock::new(),
        };
        let turn = self.write_close(scope, close, &masked).await?;
        self.count_omissions(&omissions, turn.replayed);
        Ok(turn)
    }

    /// Ends a turn with an error. Records the text that the user has seen (`partial_text`), and then the error.
    ///
    /// # Errors
    /// As [`Self::finalize`].
    pub async fn fail(
        &self,
        caller: &Caller,
        session_id: SessionId,
        turn_id: TurnId,
        request: FailTurn,
    ) -> Result<Written<Turn>, Failure> {
        let ending = CancelTurn {
            partial_text: request.partial_text,
            fence: request.fence,
            release: request.release,
        };
        self.end_without_answer(caller, (session_id, turn_id), Some(request.error), ending)
            .await
    }

    /// Ends a turn at the user's request. Records the text that the user has seen (`partial_text`), and then an item
    /// that the turn was cancelled.
    ///
    /// # Errors
    /// As [`Self::finalize`].
    pub async fn cancel(
        &self,
        caller: &Caller,
        session_id: SessionId,
        turn_id: TurnId,
        request: CancelTurn,
    ) -> Result<Written<Turn>, Failure> {
        self.end_without_answer(caller, (session_id, turn_id), None, request)
            .await
    }

    /// Ends a turn without an answer: as failed with `error`, or as cancelled if there is none.
    async fn end_without_answer(
        &self,
        caller: &Caller,
        (session_id, turn_id): (SessionId, TurnId),
        error: Option<ErrorBody>,
        ending: CancelTurn,
    ) -> Result<Written<Turn>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let limits = self.limits();
        if let Some(error) = &error {
            limits.check_text(error.message.as_ref(), "error.message")?;
            limits.check_label(Some(&error.code), "error.code")?;
        }
        limits.check_text(ending.partial_text.as_ref(), "partial_text")?;
        let scope = &fenced_scope(scope, ending.fence, ending.release)?;
        let partial = ending.partial_text.as_ref().map_or("", JsonText::as_token);
        let body_fingerprint = match &error {
            Some(error) => {
                let parts = error_parts(error)?;
                fingerprint(&[b"fail", parts.as_str().as_bytes(), partial.as_bytes()])
            }
            None => fingerprint(&[b"cancel", partial.as_bytes()]),
        };
        let masker = self.masker(self.secrets_of(turn_id));
        let ((error, partial), masked) = self.mask_with(masker, |masker| {
            masker.mask_ending(error, ending.partial_text)
        })?;
        let partial = partial.filter(|text| !text.is_empty());
        let partial = partial.map(|text| {
            ItemBody::from_text(Role::Assistant, Channel::Partial, Variant::default(), &text).into()
        });
        let close = Close {
            session_id,
            turn_id,
            request_id: None,
            ending: ending_without_answer(partial.into_iter().collect(), error.as_ref())?,
            metadata: None,
            fingerprint: self.keyed_fingerprint(body_fingerprint),
            stream: None,
            packed: OnceLock::new(),
        };
        self.write_close(scope, close, &masked).await
    }

    async fn write_close(
        &self,
        scope: &Scope,
        close: Close,
        masked: &Masked,
    ) -> Result<Written<Turn>, Failure> {
        let turn = self
            .write_turn(scope, Write::Close(Arc::new(close)), masked)
            .await?;
        self.secrets.mark_closed(turn.turn_id, self.clock.now());
        Ok(turn)
    }
}

/// The ending of a turn without an answer: `entries`, which record the text that was shown, and then the error; without
/// `error`, the item that records the cancellation.
///
/// # Errors
/// `invalid` for an error without a code.
pub(crate) fn ending_without_answer(
    mut entries: Vec<Entry>,
    error: Option<&ErrorBody>,
) -> Result<Ending, Failure> {
    Ok(match error {
        Some(error) => {
            let parts = error_parts(error)?;
            entries.push(ItemBody::new(Role::System, Channel::Error, parts).into());
            Ending::Fail(entries)
        }
        None => {
            entries.push(cancelled_item().into());
            Ending::Cancel(entries)
        }
    })
}

/// The last item of a cancelled turn, which records the cancellation.
pub(crate) fn cancelled_item() -> ItemBody {
    let parts = RawJson::from_checked(r#"[{"type":"turn_status","status":"cancelled"}]"#);
    ItemBody::new(Role::User, Channel::Cancelled, parts)
}

fn error_parts(error: &ErrorBody) -> Result<RawJson, Failure> {
    if error.code.is_empty() {
        return Err(invalid("error.code must not be empty"));
    }
    let message = error.message.as_ref().map_or("\"\"", JsonText::as_token);
    Ok(error_item_parts(
        &error.code,
        message,
        "caller",
        error.retryable,
        "",
    ))
}

/// The parts of an item that records an error. `message` is a JSON string. `more_members` is the JSON text of
/// further members, which begins with a comma, or empty.
pub(crate) fn error_item_parts(
    code: &str,
    message: &str,
    source: &str,
    retryable: bool,
    more_members: &str,
) -> RawJson {
    let code = JsonText::from_plain(code);
    let code = code.as_token();
    RawJson::from_checked(format!(
        r#"[{{"type":"error","code":{code},"message":{message},"source":"{source}","retryable":{retryable}{more_members}}}]"#
    ))
}

pub(crate) fn finalize_fingerprint(request: &FinalizeTurn) -> [u8; 16] {
    let flag = match request.answer_translated_is_fallback {
        None => 0,
        Some(false) => 1,
        Some(true) => 2,
    };
    fingerprint(&[
        b"finalize",
        &optional_bytes(request.answer_neutral.as_ref().map(JsonText::as_token)),
        &optional_bytes(request.answer_translated.as_ref().map(JsonText::as_token)),
        &[flag],
        &optional_bytes(request.metadata.as_ref().map(RawJson::as_str)),
    ])
}
