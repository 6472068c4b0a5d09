//! `filrouge keys create|list|revoke`

use std::io::Write;

use filrouge_engine::api_keys::{ApiKey, NewApiKey};
use filrouge_types::{Clock, IdentityId, SystemClock, Timestamp, duration};
use serde_json::{Value, json};

use crate::cli::{Keys, NewKey};
use crate::config::Config;
use crate::exit::{NotFound, Usage, parse_option};
use crate::moment::after;
use crate::open::{IfMissing, refuse_unverified, remember_store_has_keys, with};
use crate::output::{first_line, print_stderr, show, table};

/// A key as JSON, without the hash of its secret.
fn key_json(key: &ApiKey) -> Value {
    json!({
        "key_id": key.key_id, "name": key.name, "tenant_id": key.tenant_id, "role": key.role,
        "identity_id": key.identity_id, "status": status(key), "created_at": key.created_at,
        "expires_at": key.expires_at, "revoked_at": key.revoked_at,
    })
}

fn status(key: &ApiKey) -> &'static str {
    if key.revoked_at.is_some() {
        "revoked"
    } else if key.is_valid(SystemClock.now()) {
        "valid"
    } else {
        "expired"
    }
}

pub(super) async fn run(config: &Config, command: Keys) -> anyhow::Result<()> {
    match command {
        Keys::Create(new) => create(config, new).await,
        Keys::List => list(config).await,
        Keys::Revoke { key_id } => revoke(config, &key_id).await,
    }
}

async fn create(config: &Config, new: NewKey) -> anyhow::Result<()> {
    let new = NewApiKey {
        name: new.name,
        role: new.role,
        identity_id: parse_option("--identity", new.identity.as_deref())?,
        expires_at: new
            .expires
            .map(|text| parse_expiry(&text, SystemClock.now()))
            .transpose()?,
    };
    let created = with(config, IfMissing::Create, async |opened, caller| {
        Ok(opened.engine.keys.create(caller, new).await?)
    });
    let (key, secret) = created.await?;
    remember_store_has_keys(config)?;
    let secret = secret.expose();
    let mut output = key_json(&key);
    output["key"] = secret.into();
    show(config.json, &output, |out| writeln!(out, "{secret}"))?;
    print_stderr(
        "this is the only time that the key is shown; a server on this store asks everybody for a key from now on",
    );
    Ok(())
}

async fn list(config: &Config) -> anyhow::Result<()> {
    let keys = with(config, IfMissing::Fail, async |opened, caller| {
        Ok(opened.engine.keys.list(caller).await?)
    });
    let keys = keys.await?;
    let data: Vec<_> = keys.iter().map(key_json).collect();
    show(config.json, &json!({ "data": data }), |out| {
        let to_minute = |time: Timestamp| time.to_string().chars().take(16).collect::<String>();
        let rows = keys.iter().map(|key| {
            [
                key.key_id.clone(),
                key.role.to_string(),
                first_line(key.identity_id.as_ref().map_or("", IdentityId::as_str), 60),
                status(key).to_owned(),
                to_minute(key.created_at),
                key.expires_at.map(to_minute).unwrap_or_default(),
                first_line(key.name.as_deref().unwrap_or(""), 60),
            ]
        });
        let header = [
            "KEY", "ROLE", "IDENTITY", "STATUS", "CREATED", "EXPIRES", "NAME",
        ];
        writeln!(out, "{}", table(header, 0..0, rows))
    })
}

async fn revoke(config: &Config, key_id: &str) -> anyhow::Result<()> {
    refuse_unverified(config)?;
    let revoked = with(config, IfMissing::Fail, async |opened, caller| {
        let revoked = opened.engine.keys.revoke(caller, key_id).await;
        revoked.map_err(NotFound::if_invalid)
    });
    let key = revoked.await?;
    show(config.json, &key_json(&key), |out| {
        let at = key.revoked_at.map(|at| at.to_string()).unwrap_or_default();
        let name = first_line(key.name.as_deref().unwrap_or(""), 60);
        let line = format!("revoked: key {key_id}, role {}, {at}  {name}", key.role);
        writeln!(out, "{}", line.trim_end())
    })?;
    if !config.json {
        print_stderr("running servers refuse it within seconds");
    }
    Ok(())
}

/// Parses a time, or a duration from now: a number with s, m, h, d or w.
fn parse_expiry(text: &str, now: Timestamp) -> Result<Timestamp, Usage> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let end = duration(text).and_then(|length| after(now, length));
    end.ok_or_else(|| {
        Usage::new(format!("--expires: {text:?} is no time"))
            .with_hint("write a time such as 2027-01-31T00:00:00Z, or how long: 12h, 30d, 8w")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_is_a_time_or_a_duration() {
        let now = Timestamp::from_micros(5);
        let after = |seconds: i64| Timestamp::from_micros(5 + seconds * 1_000_000);
        for (text, expected) in [
            ("1s", after(1)),
            ("90m", after(5400)),
            ("12h", after(43_200)),
            ("30d", after(2_592_000)),
            ("2w", after(1_209_600)),
            ("1970-01-01T00:00:07Z", Timestamp::from_micros(7_000_000)),
        ] {
            assert_eq!(parse_expiry(text, now).unwrap(), expected, "{text}");
        }
        for invalid in [
            "",
            "d",
            "30",
            "-1d",
            "1.5d",
            "30 d",
            "1y",
            "9999999999999999d",
            "é",
        ] {
            assert!(parse_expiry(invalid, now).is_err(), "{invalid:?}");
        }
    }
}
