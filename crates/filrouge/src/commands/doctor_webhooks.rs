//! `filrouge doctor webhooks`, and the webhook checks of `filrouge doctor`.

use std::io::Write;
use std::process::ExitCode;

use filrouge_server::{WebhookAction, WebhookName, WebhookStatus, change_webhook, webhook_status};
use filrouge_store::Ledger;
use filrouge_types::{Clock, SystemClock};
use serde::Serialize;
use serde_json::json;

use crate::cli::DoctorWebhooks;
use crate::config::Config;
use crate::exit::{Absent, code, parsed};
use crate::open::{Need, refuse_unverified, with};
use crate::output::{printable, show};

/// A webhook's configuration and state.
#[derive(Debug, Serialize)]
pub(super) struct WebhookReport {
    enabled: bool,
    #[serde(flatten)]
    status: WebhookStatus,
}

/// The reports of all configured webhooks.
pub(super) async fn webhook_reports(
    config: &Config,
    ledger: &dyn Ledger,
) -> anyhow::Result<Vec<WebhookReport>> {
    let mut all = Vec::with_capacity(config.webhooks.len());
    for webhook in &config.webhooks {
        all.push(WebhookReport {
            enabled: webhook.enabled,
            status: webhook_status(ledger, &webhook.feed, SystemClock.now()).await?,
        });
    }
    Ok(all)
}

impl WebhookReport {
    pub(super) fn name(&self) -> String {
        format!("webhook {}", self.status.name)
    }

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
        let run = |flag: &str| Some(format!("filrouge doctor webhooks --{flag} {}", s.name));
        if self.is_well() {
            None
        } else if s.disabled_at.is_some() {
            run("enable")
        } else if !s.dead_letters.is_empty() {
            run("redeliver")
        } else {
            Some("delivery is retried; check the receiver's log".to_owned())
        }
    }
}

fn action(args: &DoctorWebhooks) -> Option<(WebhookAction, &str)> {
    let actions = [
        (WebhookAction::Redeliver, &args.redeliver),
        (WebhookAction::Discard, &args.discard),
        (WebhookAction::Enable, &args.enable),
    ];
    actions
        .into_iter()
        .find_map(|(action, name)| Some((action, name.as_deref()?)))
}

async fn change(config: &Config, action: WebhookAction, name: &str) -> anyhow::Result<ExitCode> {
    refuse_unverified(config)?;
    let name: WebhookName = parsed(name)?;
    let changed = with(config, Need::Existing, async |opened, _| {
        let done = change_webhook(opened.ledger.as_ref(), &name, action).await;
        done.map_err(Absent::if_invalid)
    });
    let letters = changed.await?;
    let (word, text) = match action {
        WebhookAction::Redeliver => (
            "redeliver",
            format!(
                "{letters} dead letters are sent again by the server that runs, or the next that starts"
            ),
        ),
        WebhookAction::Discard => (
            "discard",
            format!("{letters} dead letters were thrown away"),
        ),
        WebhookAction::Enable => ("enable", format!("webhook {name} resumes where it stopped")),
    };
    let shown = json!({ "webhook": name.as_str(), "action": word, "dead_letters": letters });
    show(config.json, &shown, |out| writeln!(out, "{text}"))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn run(config: &Config, args: &DoctorWebhooks) -> anyhow::Result<ExitCode> {
    if let Some((action, name)) = action(args) {
        return change(config, action, name).await;
    }
    let all = with(config, Need::Existing, async |opened, _| {
        webhook_reports(config, opened.ledger.as_ref()).await
    });
    let all = all.await?;
    show(config.json, &json!({ "webhooks": all }), |out| {
        if all.is_empty() {
            writeln!(out, "no webhooks are configured")?;
        }
        for webhook in &all {
            writeln!(
                out,
                "{}: {}",
                webhook.status.name,
                printable(&webhook.detail())
            )?;
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
    Ok(code(all.iter().all(WebhookReport::is_well)))
}
