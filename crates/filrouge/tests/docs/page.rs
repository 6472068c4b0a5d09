//! Parses a page into its commands and the output that it shows for them.
//!
//! - In a `console` block, `$ ` starts a command, which continues on the next line where a shell would expect more. The
//!   lines after a command are its output: `…` matches anything, and whitespace is collapsed.
//! - A `toml` block whose first line is [`CONFIGURATION`] is the configuration from that step on.
//! - A `python` block whose first line is [`SCRIPT`] is run, and must not fail.

use std::path::{Path, PathBuf};

/// The first line of a block with the configuration file.
const CONFIGURATION: &str = "# ~/.config/filrouge/config.toml";
/// The first line of a block with a Python program.
const SCRIPT: &str = "# agent.py";

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// A step of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PageStep {
    /// Run a command, and compare its output.
    Run {
        line: usize,
        command: String,
        output: String,
    },
    /// Restart the server with this configuration.
    Configure { text: String },
}

/// A document.
pub(crate) struct Page(String);

impl Page {
    pub(crate) fn read(name: &str) -> Self {
        let path = root().join(name);
        Self(std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{name}: {e}")))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Returns the steps of all blocks, in order.
    pub(crate) fn steps(&self) -> Vec<PageStep> {
        let mut steps = Vec::new();
        let mut lines = (1..).zip(self.0.lines());
        while let Some((number, line)) = lines.next() {
            let Some(kind) = line.strip_prefix("```").filter(|kind| !kind.is_empty()) else {
                continue;
            };
            let block: Vec<_> = lines.by_ref().take_while(|(_, l)| *l != "```").collect();
            match kind {
                "console" => add_commands(&block, &mut steps),
                "toml" if block.first().is_some_and(|(_, l)| *l == CONFIGURATION) => {
                    let text: Vec<_> = block.iter().map(|(_, l)| *l).collect();
                    let text = text.join("\n") + "\n";
                    steps.push(PageStep::Configure { text });
                }
                "python" if block.first().is_some_and(|(_, l)| *l == SCRIPT) => {
                    let text: Vec<_> = block.iter().map(|(_, l)| *l).collect();
                    let text = text.join("\n");
                    steps.push(PageStep::Run {
                        line: number,
                        command: format!("python3 - <<'SCRIPT' && echo done\n{text}\nSCRIPT"),
                        output: "…done\n".to_owned(),
                    });
                }
                _ => {}
            }
        }
        steps
    }
}

/// Returns whether a shell would expect another line.
fn is_incomplete(command: &str) -> bool {
    command.ends_with('\\') || command.matches('\'').count() % 2 == 1
}

/// Adds the commands of a `console` block to `steps`.
fn add_commands(block: &[(usize, &str)], steps: &mut Vec<PageStep>) {
    let mut unfinished = false;
    for (number, text) in block {
        if let Some(command) = text.strip_prefix("$ ").filter(|_| !unfinished) {
            steps.push(PageStep::Run {
                line: *number,
                command: command.to_owned(),
                output: String::new(),
            });
            unfinished = is_incomplete(command);
            continue;
        }
        let Some(PageStep::Run {
            command, output, ..
        }) = steps.last_mut()
        else {
            panic!("line {number}: a console block begins with a command");
        };
        if unfinished {
            command.push('\n');
            command.push_str(text);
            unfinished = is_incomplete(command);
        } else {
            output.push_str(text);
            output.push('\n');
        }
    }
}

/// Returns whether `text` matches `pattern`, in which `…` matches anything; whitespace is collapsed.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let collapse = |s: &str| s.split_whitespace().collect::<Vec<_>>().join(" ");
    let (pattern, text) = (collapse(pattern), collapse(text));
    let mut pieces = pattern.split('…');
    let Some(mut rest) = text.strip_prefix(pieces.next().unwrap()) else {
        return false;
    };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, middle)) = pieces.split_last() else {
        return rest.is_empty();
    };
    for piece in middle {
        match rest.split_once(piece) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn patterns_match_texts() {
    assert!(matches("a … c\n", "a bb  c"));
    assert!(matches("…", "anything"));
    assert!(matches("x", "x\n"));
    assert!(!matches("a … d", "a b c"));
    assert!(!matches("a", "a b"));
}

#[test]
fn blocks_are_parsed() {
    let page = Page(
        "```console\n$ one \\\n  more\nsaid\n$ two 'a\n$ b'\n```\n```toml\n# x\na = 1\n```\n\
         ```toml\n# ~/.config/filrouge/config.toml\nb = 2\n```\n```sh\n$ no\n```\n\
         ```python\n# agent.py\nx = 1\n```\n```python\ny = 1\n```\n"
            .to_owned(),
    );
    let run = |line, command: &str, output: &str| PageStep::Run {
        line,
        command: command.to_owned(),
        output: output.to_owned(),
    };
    let text = "# ~/.config/filrouge/config.toml\nb = 2\n".to_owned();
    assert_eq!(
        page.steps(),
        [
            run(2, "one \\\n  more", "said\n"),
            run(5, "two 'a\n$ b'", ""),
            PageStep::Configure { text },
            run(
                19,
                "python3 - <<'SCRIPT' && echo done\n# agent.py\nx = 1\nSCRIPT",
                "…done\n"
            ),
        ]
    );
}
