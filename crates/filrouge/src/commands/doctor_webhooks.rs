//! `filrouge doctor webhooks`, and the webhook checks of `filrouge doctor`.

use std::io::Write;

use anyhow::Result;
use filrouge_server::{WebhookAction, WebhookName, WebhookStatus, change_webhook, webhook_status};
use filrouge_store::Ledger;
use filrouge_types::{Clock, SystemClock};
use serde::Serialize;
use serde_json::json;

use crate::cli::DoctorWebhooks;
use crate::config::Config;
use crate::exit::{ExitCode, NotFound, code, parse};
use crate::open::{IfMissing, refuse_unverified, with};
use crate::output::show;

/// A webhook's configuration and state.
#[derive(Debug, Serialize)]
pub(super) struct WebhookReport {
    enabled: bool,
    #[serde(flatten)]
    pub(super) status: WebhookStatus,
}

/// The reports of all configured webhooks.
pub(super) async fn webhook_reports(
    config: &Config,
    ledger: &dyn Ledger,
) -> Result<Vec<WebhookReport>> {
    let mut reports = Vec::with_capacity(config.webhooks.len());
    for webhook in &config.webhooks {
        reports.push(WebhookReport {
            enabled: webhook.enabled,
            status: webhook_status(ledger, &webhook.feed, SystemClock.now()).await?,
        });
    }
    Ok(reports)
}

impl WebhookReport {
    pub(super) fn is_well(&self) -> bool {
        let s = &self.status;
        !self.enabled || (s.disabled_at.is_none() && s.failures == 0 && s.dead_letters.is_empty())
    }

    /// The state on one line.
    pub(super) fn detail(&self) -> String {
        let s = &self.status;
        let mut parts = Vec::new();
        if !self.enabled {
            parts.push("not enabled".to_owned());
        }
        match &s.cursor {
            Some(cursor) => {
                parts.push(format!("cursor {cursor}, {} commits behind", s.lag_commits));
            }
            None => parts.push("has not begun".to_owned()),
        }
        if let Some(holder) = &s.holder {
            parts.push(format!("sent by {holder}"));
        }
        if let Some(at) = s.disabled_at {
            parts.push(format!("disabled since {at}: the receiver answers 410"));
        }
        if s.failures > 0 {
            let error = s.last_error.as_deref().unwrap_or("unknown");
            parts.push(format!(
                "{} failures in a row, the last {error}",
                s.failures
            ));
        }
        if let Some(at) = s.retry_at {
            parts.push(format!("next attempt at {at}"));
        }
        if !s.dead_letters.is_empty() {
            parts.push(format!("{} dead letters", s.dead_letters.len()));
        }
        if s.dead_letters_dropped > 0 {
            parts.push(format!("{} older ones not kept", s.dead_letters_dropped));
        }
        if s.redelivering {
            parts.push("being sent again".to_owned());
        }
        parts.join("; ")
    }

    pub(super) fn hint(&self) -> Option<String> {
        let s = &self.status;
        let command = |flag: &str| Some(format!("filrouge doctor webhooks --{flag} {}", s.name));
        if self.is_well() {
            None
        } else if s.disabled_at.is_some() {
            command("enable")
        } else if !s.dead_letters.is_empty() {
            command("redeliver")
        } else {
            Some("delivery is retried; check the receiver's log".to_owned())
        }
    }
}

fn requested_action(args: &DoctorWebhooks) -> Option<(WebhookAction, &str)> {
    let actions = [
        (WebhookAction::Redeliver, &args.redeliver),
        (WebhookAction::Discard, &args.discard),
        (WebhookAction::Enable, &args.enable),
    ];
    actions
        .into_iter()
        .find_map(|(action, name)| Some((action, name.as_deref()?)))
}

async fn run_action(config: &Config, action: WebhookAction, name: &str) -> Result<ExitCode> {
    refuse_unverified(config)?;
    let name: WebhookName = parse(name)?;
    let changed = with(config, IfMissing::Fail, async |opened, _| {
        let result = change_webhook(opened.ledger.as_ref(), &name, action).await;
        result.map_err(NotFound::if_invalid)
    });
    let count = changed.await?;
    let (action_name, text) = match action {
        WebhookAction::Redeliver => (
            "redeliver",
            format!(
                "{count} dead letters are sent again by the server that runs, or the next that starts"
            ),
        ),
        WebhookAction::Discard => ("discard", format!("{count} dead letters were thrown away")),
        WebhookAction::Enable => ("enable", format!("webhook {name} resumes where it stopped")),
    };
    let output = json!({ "webhook": name.as_str(), "action": action_name, "dead_letters": count });
    show(config.json, &output, |out| writeln!(out, "{text}"))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn run(config: &Config, args: &DoctorWebhooks) -> Result<ExitCode> {
    if let Some((action, name)) = requested_action(args) {
        return run_action(config, action, name).await;
    }
    let reports = with(config, IfMissing::Fail, async |opened, _| {
        webhook_reports(config, opened.ledger.as_ref()).await
    });
    let reports = reports.await?;
    show(config.json, &json!({ "webhooks": reports }), |out| {
        if reports.is_empty() {
            writeln!(out, "no webhooks are configured")?;
        }
        for webhook in &reports {
            writeln!(out, "{}: {}", webhook.status.name, webhook.detail())?;
            for letter in &webhook.status.dead_letters {
                writeln!(
                    out,
                    "  dead: after {} up to {}, {} attempts, {}, given up {}",
                    letter.after, letter.next_cursor, letter.attempts, letter.error, letter.at
                )?;
            }
            if let Some(hint) = webhook.hint() {
                writeln!(out, "  hint: {hint}")?;
            }
        }
        Ok(())
    })?;
    Ok(code(reports.iter().all(WebhookReport::is_well)))
}
