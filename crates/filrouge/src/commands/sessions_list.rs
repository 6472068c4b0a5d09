//! `filrouge sessions list`

use std::io::Write;

use filrouge_store::command::{SessionFilter, SessionSort};
use filrouge_store::verify::Finding;
use filrouge_types::{IdentityId, Session};
use serde::Serialize;

use crate::cli::ListSessions;
use crate::config::Config;
use crate::exit::{Usage, parse, parse_option};
use crate::open::{IfMissing, with};
use crate::output::{first_line, print_findings_except, print_stderr, show, table, utc_time};

/// A page of sessions; their metadata is written as it was recorded, byte for byte.
#[derive(Serialize)]
struct Page<'a> {
    data: &'a [Session],
    next_cursor: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    findings: &'a [Finding],
}

/// The order that the arguments name.
pub(super) fn sort(args: &ListSessions) -> Result<SessionSort, Usage> {
    let order = parse_option("--order", args.order.as_deref())?;
    Ok(order.unwrap_or(SessionSort::Updated))
}

fn session_filter(args: &ListSessions) -> Result<SessionFilter, Usage> {
    Ok(SessionFilter {
        project_id: args.project.as_deref().map(parse).transpose()?,
        identity_id: args.identity.as_deref().map(parse).transpose()?,
        status: parse_option("--status", args.status.as_deref())?,
        agent: args.agent.as_deref().map(Into::into),
        title: args.q.as_deref().map(Into::into),
        order: sort(args)?,
        ..SessionFilter::default()
    })
}

pub(super) async fn run(config: &Config, args: ListSessions) -> anyhow::Result<()> {
    if args.limit == 0 {
        return Err(Usage::new("--limit must be at least 1").into());
    }
    let filter = session_filter(&args)?;
    let result = with(config, IfMissing::Fail, async |opened, caller| {
        let (cursor, limit) = (args.cursor, args.limit);
        let sessions = &opened.engine.sessions;
        let result = sessions.list_with_findings(caller, filter, cursor, limit);
        Ok(result.await?)
    });
    let ((sessions, next), findings) = result.await?;
    let page = Page {
        data: &sessions,
        next_cursor: next.as_deref(),
        findings: &findings,
    };
    show(config.json, &page, |out| {
        let rows = sessions.iter().map(|s| {
            [
                first_line(s.session_id.as_str(), 256),
                s.status.to_string(),
                first_line(s.identity_id.as_ref().map_or("", IdentityId::as_str), 60),
                s.turn_count.to_string(),
                s.last_seq.to_string(),
                utc_time(s.updated_at),
                first_line(s.title.as_deref().unwrap_or(""), 60),
            ]
        });
        let header = [
            "SESSION", "STATUS", "OWNER", "TURNS", "ITEMS", "UPDATED", "TITLE",
        ];
        writeln!(out, "{}", table(header, 0..0, rows))
    })?;
    print_findings_except(&findings, |id| {
        sessions.iter().any(|s| s.session_id.as_str() == id)
    });
    if let Some(cursor) = next.filter(|_| !config.json) {
        print_stderr(format_args!("there are more: --cursor {cursor}"));
    }
    Ok(())
}
