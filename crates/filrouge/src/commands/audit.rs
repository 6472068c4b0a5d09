//! `filrouge audit`: who said what, which tool with which parameters, by which agent and model, in order.

use std::io::Write;

use filrouge_engine::Caller;
use filrouge_engine::audit::{AuditQuery, AuditRow};
use filrouge_types::{Channel, Clock, IdentityId, JsonText, RawJson, Role, SystemClock, Timestamp};

use serde::Deserialize;

use crate::cli::{Audit, AuditFormat};
use crate::config::Config;
use crate::exit::{Usage, parse_option};
use crate::moment::Period;
use crate::open::{IfMissing, OpenStore, with};
use crate::output::{first_line, json_for_stdout, print, print_findings, stdout, utc_time};

/// The number of rows per page.
const PAGE_ROWS: usize = 500;

pub(super) async fn run(config: &Config, args: Audit) -> anyhow::Result<()> {
    let format = match args.format {
        None if config.json => AuditFormat::Jsonl,
        None => AuditFormat::Text,
        Some(AuditFormat::Text | AuditFormat::Csv) if config.json => {
            return Err(Usage::new("--json means --format jsonl").into());
        }
        Some(format) => format,
    };
    let query = query(&args, SystemClock.now())?;
    with(config, IfMissing::Fail, async |opened, caller| {
        write(opened, caller, query, format).await
    })
    .await
}

fn query(args: &Audit, now: Timestamp) -> Result<AuditQuery, Usage> {
    let period = Period::parse(args.since.as_deref(), args.until.as_deref(), now)?;
    Ok(AuditQuery {
        session_id: parse_option("--session", args.session.as_deref())?,
        identity_id: parse_option("--identity", args.identity.as_deref())?,
        tool: args.tool.as_deref().map(Into::into),
        agent: args.agent.as_deref().map(Into::into),
        since: period.since,
        until: period.until,
        limit: PAGE_ROWS,
        ..AuditQuery::default()
    })
}

/// Writes all rows, page by page, up to the commits that were the newest when the first page was read. Damaged sessions
/// are named on stderr, and in CSV and JSON lines also by rows.
async fn write(
    opened: &OpenStore,
    caller: &Caller,
    mut query: AuditQuery,
    format: AuditFormat,
) -> anyhow::Result<()> {
    if format == AuditFormat::Csv {
        print(|out| out.write_all(AuditRow::csv_header().as_bytes()))?;
    }
    loop {
        let audit = &opened.engine.audit;
        let page = audit.page(caller, query.clone()).await?;
        let damage = match format {
            AuditFormat::Text => Vec::new(),
            AuditFormat::Csv | AuditFormat::Jsonl => audit.damage_rows(&page.findings)?,
        };
        let mut out = stdout();
        for row in page.rows.iter().chain(&damage) {
            match format {
                AuditFormat::Text => writeln!(out, "{}", text_line(row))?,
                AuditFormat::Csv => out.write_all(row.csv_line()?.as_bytes())?,
                AuditFormat::Jsonl => write!(out, "{}", json_for_stdout(&row.json_line()?))?,
            }
        }
        out.flush()?;
        print_findings(&page.findings);
        query.continue_after(page);
        if query.cursor.is_none() {
            return Ok(());
        }
    }
}

/// Formats a row on one line: time, location, author, channel and content.
fn text_line(row: &AuditRow) -> String {
    let at = utc_time(row.at);
    let location = match row.seq {
        Some(seq) => format!("{}:{seq}", row.session_id),
        None => row.session_id.to_string(),
    };
    let channel = row.channel.as_ref().map_or("erased", Channel::as_str);
    let line = format!(
        "{at}  {}  {}  {}  {}",
        first_line(&location, 300),
        first_line(&author(row), 120),
        first_line(channel, 64),
        first_line(&content(row), 200)
    );
    line.trim_end().to_owned()
}

/// The author of a row: the end user of a user's message; else the role, with its agent and model.
fn author(row: &AuditRow) -> String {
    let role = row.role.map_or("-", Role::as_str);
    if row.role == Some(Role::User) {
        let identity = row.identity_id.as_ref().map_or("-", IdentityId::as_str);
        return format!("{role} {identity}");
    }
    let names = [row.agent.as_deref(), row.model.as_deref()];
    let names = names.into_iter().flatten().map(|name| format!(" {name}"));
    names.fold(role.to_owned(), |text, name| text + &name)
}

/// The content of a row, without line breaks: the text, the call or the result.
fn content(row: &AuditRow) -> String {
    if row.redacted {
        return "(redacted)".to_owned();
    }
    let plain = |text: &Option<JsonText>| text.as_ref().map(JsonText::to_plain);
    let raw = |json: &Option<RawJson>| json.as_ref().map(|json| json.as_str().to_owned());
    let failed = row.ok.filter(|ok| !ok).map(|_| "(failed)".to_owned());
    let error = row.error.as_ref().map(|error| {
        let texts = [plain(&error.code), plain(&error.message)];
        texts.into_iter().flatten().collect::<Vec<_>>().join(": ")
    });
    let mut texts: Vec<String> = [
        plain(&row.tool),
        raw(&row.args).or_else(|| partial_args(row)),
        failed,
        raw(&row.result),
        error,
        plain(&row.text),
    ]
    .into_iter()
    .flatten()
    .collect();
    if texts.is_empty() {
        texts.extend(raw(&row.detail));
    }
    // A row is one line, even where its JSON has line breaks.
    texts.join(" ").replace(['\n', '\r'], " ")
}

/// The part of the arguments that arrived before a call was cut off; it is not valid JSON. `None` if the call was not
/// cut off.
fn partial_args(row: &AuditRow) -> Option<String> {
    #[derive(Deserialize)]
    struct Part {
        #[serde(rename = "type")]
        kind: String,
        args: Option<RawJson>,
    }
    row.tool.as_ref()?;
    let parts: Vec<Part> = serde_json::from_str(row.detail.as_ref()?.as_str()).ok()?;
    // The row's own call is the last part of its item.
    let last = parts.into_iter().next_back()?;
    let args = last.args.filter(|_| last.kind == "tool_call_partial")?;
    JsonText::from_raw(args).ok().map(|args| args.to_plain())
}
