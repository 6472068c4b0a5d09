//! `filrouge sessions list`

use std::io::Write;

use filrouge_store::command::SessionFilter;
use filrouge_types::{IdentityId, Session};
use serde::Serialize;

use crate::cli::ListSessions;
use crate::config::Config;
use crate::exit::{Usage, parse_option, parsed};
use crate::open::{Need, with};
use crate::output::{first_line, say, second, show, table};

/// A page of sessions; their metadata is written as it was recorded, byte for byte.
#[derive(Serialize)]
struct Page<'a> {
    data: &'a [Session],
    next_cursor: Option<&'a str>,
}

fn filter(args: &ListSessions) -> Result<SessionFilter, Usage> {
    Ok(SessionFilter {
        project_id: args.project.as_deref().map(parsed).transpose()?,
        identity_id: args.identity.as_deref().map(parsed).transpose()?,
        status: parse_option("--status", args.status.as_deref())?,
        agent: args.agent.as_deref().map(Into::into),
        title: args.q.as_deref().map(Into::into),
        ..SessionFilter::default()
    })
}

pub(super) async fn run(config: &Config, args: ListSessions) -> anyhow::Result<()> {
    if args.limit == 0 {
        return Err(Usage::new("--limit must be at least 1").into());
    }
    let filter = filter(&args)?;
    let listed = with(config, Need::Existing, async |opened, caller| {
        let (cursor, limit) = (args.cursor, args.limit);
        let listed = opened.engine.sessions.list(caller, filter, cursor, limit);
        Ok(listed.await?)
    });
    let (sessions, next) = listed.await?;
    let page = Page {
        data: &sessions,
        next_cursor: next.as_deref(),
    };
    show(config.json, &page, |out| {
        let rows = sessions.iter().map(|s| {
            [
                first_line(s.session_id.as_str(), 256),
                s.status.to_string(),
                first_line(s.identity_id.as_ref().map_or("", IdentityId::as_str), 60),
                s.turn_count.to_string(),
                s.last_seq.to_string(),
                second(s.updated_at),
                first_line(s.title.as_deref().unwrap_or(""), 60),
            ]
        });
        let header = [
            "SESSION", "STATUS", "OWNER", "TURNS", "ITEMS", "UPDATED", "TITLE",
        ];
        writeln!(out, "{}", table(header, 0..0, rows))
    })?;
    if let Some(cursor) = next.filter(|_| !config.json) {
        say(format_args!("there are more: --cursor {cursor}"));
    }
    Ok(())
}
