//! `filrouge project verify NAME`: exit 0 equal, 1 different.

use std::io::Write;

use filrouge_projections::{Difference, Verified, verify};

use crate::config::Config;
use crate::exit::{ExitCode, code};
use crate::open::{IfMissing, refuse_unverified, with};
use crate::output::{json_for_stdout, print, printable};
use crate::projections::open_named;

/// What comes before the differences in JSON.
const JSON_BEGIN: &str = "{\"differences\": [\n";

pub(super) async fn run(config: &Config, name: &str) -> anyhow::Result<ExitCode> {
    refuse_unverified(config)?;
    let projection = open_named(config, name)?;
    let mut printer = Printer {
        json: config.json,
        has_printed: false,
        failure: None,
    };
    let report = |difference: &Difference| printer.print_if_possible(difference);
    let verified = with(config, IfMissing::Fail, async |opened, _| {
        Ok(verify(&opened.engine, &projection, report).await?)
    });
    let verified = verified.await?;
    printer.print_end(name, verified)?;
    Ok(code(verified.differences == 0))
}

/// Prints differences when they are found: there may be more of them than fit into memory.
struct Printer {
    json: bool,
    has_printed: bool,
    /// The first failure of stdout.
    failure: Option<anyhow::Error>,
}

impl Printer {
    fn print_if_possible(&mut self, difference: &Difference) {
        if self.failure.is_none() {
            self.failure = self.print_difference(difference).err();
        }
    }

    fn print_difference(&mut self, difference: &Difference) -> anyhow::Result<()> {
        let text = match (self.json, self.has_printed) {
            (false, _) => format!("{}\n", printable(&line(difference))),
            (true, has_printed) => {
                let before = if has_printed { ",\n" } else { JSON_BEGIN };
                let json = serde_json::to_string(difference)?;
                format!("{before}{}", json_for_stdout(&json))
            }
        };
        self.has_printed = true;
        print(|out| out.write_all(text.as_bytes()))
    }

    fn print_end(self, name: &str, verified: Verified) -> anyhow::Result<()> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let Verified {
            sessions,
            rows,
            differences,
            lag_commits,
        } = verified;
        if self.json {
            let begin = if self.has_printed { "" } else { JSON_BEGIN };
            let end = format!(
                "\"lag_commits\": {lag_commits}, \"name\": \"{name}\", \"rows\": {rows}, \"sessions\": {sessions}"
            );
            return print(|out| writeln!(out, "{begin}], {end}}}"));
        }
        let verdict = match differences {
            0 => "equal".to_owned(),
            count => format!("{count} differences"),
        };
        print(|out| {
            writeln!(out, "{name}: {verdict}: {sessions} sessions, {rows} rows")?;
            if lag_commits > 0 {
                writeln!(
                    out,
                    "the projection is {lag_commits} commits behind; differences may be changes that it lacks"
                )?;
            }
            Ok(())
        })
    }
}

fn line(difference: &Difference) -> String {
    let Difference {
        tenant,
        session_id,
        kind,
        table,
        id,
        columns,
    } = difference;
    let columns = match columns.is_empty() {
        true => String::new(),
        false => format!(": {}", columns.join(", ")),
    };
    format!("{kind}: tenant {tenant}, session {session_id}, {table} {id}{columns}")
}
