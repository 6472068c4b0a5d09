//! Ending turns: finalize, fail, cancel (DESIGN §4.3, §4.4).

use filrouge_store::chain::fingerprint;
use filrouge_store::command::{Close, Ending, Scope, Write};
use filrouge_store::record::Entry;
use filrouge_types::{
    Channel, ErrorCode, Failure, ItemBody, JsonText, RawJson, Role, SessionId, Turn, TurnId,
    Variant,
};

use crate::caller::{Caller, Permission};
use crate::calls::held;
use crate::core::{optional_bytes, text_item};
use crate::engine::Turns;
use crate::record_policy::{LeftOut, kept_metadata};
use crate::requests::{CancelTurn, ErrorBody, FailTurn, FinalizeTurn};
use crate::secrets::Masked;
use crate::written::Written;

impl Turns {
    /// Ends a turn with an answer.
    ///
    /// # Errors
    /// `answer_missing`, `turn_closed`, `turn_mismatch`, `idempotency_mismatch`, and as [`Self::append`].
    pub async fn finalize(
        &self,
        caller: &Caller,
        session_id: SessionId,
        turn_id: TurnId,
        mut request: FinalizeTurn,
    ) -> Result<Written<Turn>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        self.settings
            .limits
            .metadata(request.metadata.as_ref(), "metadata")?;
        self.settings
            .limits
            .text(request.answer_neutral.as_ref(), "answer_neutral")?;
        self.settings
            .limits
            .text(request.answer_translated.as_ref(), "answer_translated")?;
        let scope = &held(scope, request.fence, request.release)?;
        // Of the request as it came: a retry is known by it, whatever is left out.
        let fingerprint = self.keyed(finalize_fingerprint(&request));
        let mut left = LeftOut::default();
        if request.metadata.is_some() {
            let keep = self.keep(scope, &session_id).await?;
            request.metadata = self.hashed(&scope.tenant, request.metadata);
            kept_metadata(&keep, &mut request.metadata, &mut left);
        }
        let sieve = self.sieve(self.secrets_of(turn_id));
        let (request, masked) = self.sift(sieve, |sieve| Ok(sieve.finalize(request)))?;
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
        };
        let turn = self.write_close(scope, close, &masked).await?;
        self.left_out(&left, turn.replayed);
        Ok(turn)
    }

    /// Ends a turn with an error, after what was shown.
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
        let scope = &caller.scope(Permission::Write)?;
        self.settings
            .limits
            .text(request.error.message.as_ref(), "error.message")?;
        self.settings
            .limits
            .label(Some(&request.error.code), "error.code")?;
        self.settings
            .limits
            .text(request.partial_text.as_ref(), "partial_text")?;
        let scope = &held(scope, request.fence, request.release)?;
        let parts = error_parts(&request.error)?;
        let partial = request.partial_text.as_ref().map_or("", JsonText::as_token);
        let body = fingerprint(&[b"fail", parts.as_str().as_bytes(), partial.as_bytes()]);
        let sieve = self.sieve(self.secrets_of(turn_id));
        let (request, masked) = self.sift(sieve, |sieve| Ok(sieve.fail(request)))?;
        let parts = error_parts(&request.error)?;
        let mut entries = partial_entries(request.partial_text.as_ref());
        entries.push(ItemBody::new(Role::System, Channel::Error, parts).into());
        let ending = Ending::Fail(entries);
        let close = Close {
            session_id,
            turn_id,
            request_id: None,
            ending,
            metadata: None,
            fingerprint: self.keyed(body),
            stream: None,
        };
        self.write_close(scope, close, &masked).await
    }

    /// Ends a turn by the user's wish, after what was shown.
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
        let scope = &caller.scope(Permission::Write)?;
        self.settings
            .limits
            .text(request.partial_text.as_ref(), "partial_text")?;
        let scope = &held(scope, request.fence, request.release)?;
        let partial = request.partial_text.as_ref().map_or("", JsonText::as_token);
        let body = fingerprint(&[b"cancel", partial.as_bytes()]);
        let sieve = self.sieve(self.secrets_of(turn_id));
        let (request, masked) = self.sift(sieve, |sieve| Ok(sieve.cancel(request)))?;
        let mut entries = partial_entries(request.partial_text.as_ref());
        let parts = RawJson::from_checked(r#"[{"type":"turn_status","status":"cancelled"}]"#);
        entries.push(ItemBody::new(Role::User, Channel::Cancelled, parts).into());
        let ending = Ending::Cancel(entries);
        let close = Close {
            session_id,
            turn_id,
            request_id: None,
            ending,
            metadata: None,
            fingerprint: self.keyed(body),
            stream: None,
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
            .write_turn(scope, Write::Close(Box::new(close)), masked)
            .await?;
        self.secrets().forget(turn.turn_id, self.clock.now());
        Ok(turn)
    }
}

pub(crate) fn error_parts(error: &ErrorBody) -> Result<RawJson, Failure> {
    if error.code.is_empty() {
        return Err(Failure::new(
            ErrorCode::Invalid,
            "error.code must not be empty",
        ));
    }
    let code = JsonText::from_plain(&error.code);
    let message = error.message.as_ref().map_or("\"\"", JsonText::as_token);
    Ok(RawJson::from_checked(format!(
        r#"[{{"type":"error","code":{},"message":{message},"source":"caller","retryable":{}}}]"#,
        code.as_token(),
        error.retryable
    )))
}

fn partial_entries(text: Option<&JsonText>) -> Vec<Entry> {
    text.filter(|t| !t.is_empty())
        .map(|t| text_item(Role::Assistant, Channel::Partial, Variant::Neutral, t).into())
        .into_iter()
        .collect()
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
