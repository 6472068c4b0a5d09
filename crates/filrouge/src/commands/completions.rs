//! `filrouge completions SHELL`, and `filrouge sessions ids`, which the scripts call to complete ids.

use std::cmp::Reverse;
use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use super::source::query_named;
use crate::cli::{Cli, Sources};
use crate::config::Config;
use crate::output::{first_line, print};

/// The maximum number of ids that a shell receives.
const IDS_MAX: usize = 200;

/// Completes ids after the generated function has run.
const BASH: &str = r#"
_filrouge_with_ids() {
    _filrouge "$@"
    case " ${COMP_WORDS[*]:1:COMP_CWORD-1} " in
        *" sessions show " | *" sessions tail " | *" doctor session " | *" --session " | \
        " export " | " lineage " | " stats " | " verify " | " redact " | " erase ")
            COMPREPLY+=($(compgen -W "$(filrouge sessions ids 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
            ;;
    esac
}
complete -F _filrouge_with_ids -o nosort -o bashdefault -o default filrouge 2>/dev/null ||
    complete -F _filrouge_with_ids -o bashdefault -o default filrouge
"#;

/// Completes ids where [`ZSH_ACTION`] is the action of an argument.
const ZSH: &str = r#"
_filrouge_ids() {
    local -a ids
    ids=(${(f)"$(filrouge sessions ids 2>/dev/null)"})
    compadd -a ids
}
"#;
const ZSH_ACTION: &str = "The session:_filrouge_ids";

const FISH: &str = r#"
complete -c filrouge -n "__fish_seen_subcommand_from show tail export lineage stats verify redact erase" -f -a "(filrouge sessions ids 2>/dev/null)"
complete -c filrouge -n "__fish_seen_subcommand_from doctor; and __fish_seen_subcommand_from session" -f -a "(filrouge sessions ids 2>/dev/null)"
"#;

pub(super) fn run(shell: Shell) -> anyhow::Result<()> {
    // The script is rendered in memory first: clap panics when a write fails, for example when the reader closed the
    // pipe.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "filrouge", &mut script);
    let script = String::from_utf8(script)?;
    let script = match shell {
        Shell::Bash => script + BASH,
        Shell::Fish => script + FISH,
        Shell::Zsh => {
            let script = script.replace("The session:_default", ZSH_ACTION);
            // The first line, `#compdef filrouge`, must stay the first.
            script.replacen('\n', ZSH, 1)
        }
        _ => script,
    };
    print(|out| out.write_all(script.as_bytes()))
}

/// Prints the ids of sessions that begin with `start`, those of the last changed sessions first.
pub(super) async fn list_ids(config: &Config, start: String) -> anyhow::Result<()> {
    let sources = Sources::default();
    let ids = query_named(config, &sources, move |library| {
        let catalog = library.catalog();
        let headers = catalog.entries.iter().map(|entry| &entry.header);
        let matching = headers.filter(|header| header.id.starts_with(&*start));
        let mut matching: Vec<_> = matching.collect();
        matching.sort_by_key(|header| Reverse(header.updated));
        let ids = matching.into_iter().take(IDS_MAX);
        Ok(Vec::from_iter(ids.map(|header| header.id.to_string())))
    });
    let ids = ids.await?;
    print(|out| {
        ids.iter()
            .try_for_each(|id| writeln!(out, "{}", first_line(id, 256)))
    })
}
