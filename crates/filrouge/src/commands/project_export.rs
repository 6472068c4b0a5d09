//! `filrouge project export [NAME] --format parquet --to FOLDER`: exit 1 if sessions were left out.

use std::collections::{BTreeMap, btree_set};
use std::io::Write;

use filrouge_engine::is_of_session;
use filrouge_projections::parquet::{ExportError, ExportReport, NOT_ERASED, export};
use filrouge_projections::{CurrentSessions, Selection, SessionKey, SessionUpdate};
use filrouge_types::{ErrorCode, Failure, TenantId};
use serde_json::{Value, json};

use crate::cli::{ExportTables, TableFormat};
use crate::config::Config;
use crate::exit::{ExitCode, Usage, code};
use crate::open::{IfMissing, refuse_unverified, with};
use crate::output::{printable, show};
use crate::projections::{history_of, named};

/// The sessions that are left to export, and those that cannot be read.
struct Sessions<'a> {
    current: &'a CurrentSessions<'a>,
    left: btree_set::IntoIter<SessionKey>,
    unreadable: Vec<(SessionKey, ErrorCode)>,
}

impl Sessions<'_> {
    /// Reads the next session; `None` after the last one.
    async fn next(&mut self) -> Result<Option<SessionUpdate>, Failure> {
        for key in self.left.by_ref() {
            match self.current.read(&key).await {
                Ok(Some(update)) => return Ok(Some(update)),
                // It was erased meanwhile.
                Ok(None) => {}
                Err(failure) if is_of_session(&failure) => {
                    self.unreadable.push((key, failure.code));
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(None)
    }
}

/// Exports the sessions of all tenants, or of the configured tenant only.
pub(super) async fn run(
    config: &Config,
    args: &ExportTables,
    is_one_tenant: bool,
) -> anyhow::Result<ExitCode> {
    refuse_unverified(config)?;
    let TableFormat::Parquet = args.format;
    let (selection, history, tenant_ids) = match &args.name {
        Some(name) => {
            let projection = named(config, name)?;
            let tenant_ids = projection.tables.tenant_ids.clone();
            (
                projection.selection.clone(),
                history_of(projection),
                tenant_ids,
            )
        }
        None => (Selection::default(), None, BTreeMap::new()),
    };
    let exported = with(config, IfMissing::Fail, async |opened, _| {
        let current = CurrentSessions::list(&opened.engine, history.as_ref(), &selection).await?;
        let mut keys = current.keys().clone();
        keys.retain(|key| !is_one_tenant || key.tenant == config.tenant);
        let mut sessions = Sessions {
            current: &current,
            left: keys.into_iter(),
            unreadable: Vec::new(),
        };
        let report = export_all(args, &tenant_ids, &mut sessions).await?;
        Ok((report, sessions.unreadable))
    });
    let (report, unreadable) = exported.await?;
    print_report(config, args, &report, &unreadable)?;
    Ok(code(unreadable.is_empty()))
}

async fn export_all(
    args: &ExportTables,
    tenant_ids: &BTreeMap<TenantId, i32>,
    sessions: &mut Sessions<'_>,
) -> anyhow::Result<ExportReport> {
    let exported = export(&args.to, tenant_ids, async || sessions.next().await);
    exported.await.map_err(|error| match error {
        ExportError::Session(failure) => failure.into(),
        ExportError::NotEmpty(_) => Usage::new(error.to_string())
            .with_hint("name a folder that does not exist yet")
            .into(),
        error => error.into(),
    })
}

fn print_report(
    config: &Config,
    args: &ExportTables,
    report: &ExportReport,
    unreadable: &[(SessionKey, ErrorCode)],
) -> anyhow::Result<()> {
    let left_out = unreadable.iter().map(|(key, reason)| {
        json!({ "tenant": key.tenant, "session_id": key.session, "reason": reason.as_str() })
    });
    let left_out: Vec<Value> = left_out.collect();
    let output = json!({
        "folder": args.to.display().to_string(), "sessions": report.sessions, "files": report.files, "rows": report.rows,
        "left_out": left_out, "notice": NOT_ERASED,
    });
    show(config.json, &output, |out| {
        let folder = args.to.display();
        let (sessions, files) = (report.sessions, report.files);
        writeln!(out, "{sessions} sessions in {files} files in {folder}")?;
        for (table, rows) in &report.rows {
            writeln!(out, "  {table}: {rows} rows")?;
        }
        for (key, reason) in unreadable {
            let line = format!(
                "left out: tenant {}, session {}: {reason}",
                key.tenant, key.session
            );
            writeln!(out, "{}", printable(&line))?;
        }
        writeln!(out, "{NOT_ERASED}")
    })
}
