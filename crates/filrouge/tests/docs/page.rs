//! A page, and what its blocks say is to be done and comes of it.
//!
//! - In a `console` block a line with `$ ` is a command; it goes on where a shell would ask for another line. What
//!   follows is what it prints: `…` stands for anything, runs of blanks and line ends are one.
//! - A `toml` block whose first line is [`CONFIGURATION`] is the configuration from there on.
//! - A `python` block whose first line is [`SCRIPT`] is run, and must not fail.

use std::path::{Path, PathBuf};

/// The title of a block that is the configuration file.
const CONFIGURATION: &str = "# ~/.config/filrouge/config.toml";
/// The title of a block that is a program.
const SCRIPT: &str = "# agent.py";

/// The repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// What a page wants done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A command with what it prints.
    Run {
        line: usize,
        command: String,
        output: String,
    },
    /// A configuration to go on with.
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

    /// What its blocks want done, in order.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut lines = (1..).zip(self.0.lines());
        while let Some((number, line)) = lines.next() {
            let Some(kind) = line.strip_prefix("```").filter(|kind| !kind.is_empty()) else {
                continue;
            };
            let block: Vec<_> = lines.by_ref().take_while(|(_, l)| *l != "```").collect();
            match kind {
                "console" => commands(&block, &mut steps),
                "toml" if block.first().is_some_and(|(_, l)| *l == CONFIGURATION) => {
                    let text: Vec<_> = block.iter().map(|(_, l)| *l).collect();
                    let text = text.join("\n") + "\n";
                    steps.push(Step::Configure { text });
                }
                "python" if block.first().is_some_and(|(_, l)| *l == SCRIPT) => {
                    let text: Vec<_> = block.iter().map(|(_, l)| *l).collect();
                    let text = text.join("\n");
                    steps.push(Step::Run {
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

/// Whether the shell would ask for another line.
fn goes_on(command: &str) -> bool {
    command.ends_with('\\') || command.matches('\'').count() % 2 == 1
}

/// The commands of a `console` block.
fn commands(block: &[(usize, &str)], steps: &mut Vec<Step>) {
    let mut open = false;
    for (number, text) in block {
        if let Some(command) = text.strip_prefix("$ ").filter(|_| !open) {
            steps.push(Step::Run {
                line: *number,
                command: command.to_owned(),
                output: String::new(),
            });
            open = goes_on(command);
            continue;
        }
        let Some(Step::Run {
            command, output, ..
        }) = steps.last_mut()
        else {
            panic!("line {number}: a console block begins with a command");
        };
        if open {
            command.push('\n');
            command.push_str(text);
            open = goes_on(command);
        } else {
            output.push_str(text);
            output.push('\n');
        }
    }
}

/// Whether `text` is `pattern`, in which `…` stands for anything and runs of blanks are one.
pub(crate) fn fits(pattern: &str, text: &str) -> bool {
    let fold = |s: &str| s.split_whitespace().collect::<Vec<_>>().join(" ");
    let (pattern, text) = (fold(pattern), fold(text));
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
fn patterns_fit_what_they_should() {
    assert!(fits("a … c\n", "a bb  c"));
    assert!(fits("…", "anything"));
    assert!(fits("x", "x\n"));
    assert!(!fits("a … d", "a b c"));
    assert!(!fits("a", "a b"));
}

#[test]
fn blocks_are_read_as_they_stand() {
    let page = Page(
        "```console\n$ one \\\n  more\nsaid\n$ two 'a\n$ b'\n```\n```toml\n# x\na = 1\n```\n\
         ```toml\n# ~/.config/filrouge/config.toml\nb = 2\n```\n```sh\n$ no\n```\n\
         ```python\n# agent.py\nx = 1\n```\n```python\ny = 1\n```\n"
            .to_owned(),
    );
    let run = |line, command: &str, output: &str| Step::Run {
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
            Step::Configure { text },
            run(
                19,
                "python3 - <<'SCRIPT' && echo done\n# agent.py\nx = 1\nSCRIPT",
                "…done\n"
            ),
        ]
    );
}
