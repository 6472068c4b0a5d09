//! The colors of members: each member of a team has its own color, the same in every session.

use filrouge_team::team::Team;

/// Those of the 256 terminal colors that are legible both on a dark and on a light background.
const COLORS: [u8; 10] = [33, 37, 64, 98, 130, 136, 161, 166, 29, 133];

/// Whether and how texts are colored.
#[derive(Debug, Clone, Default)]
pub(crate) struct Style {
    /// Members' ids with their colors; empty without colors.
    members: Vec<(Box<str>, u8)>,
    is_colored: bool,
}

/// Whether terminal output may be colored (<https://no-color.org>).
pub(crate) fn wants_color(variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_disabled = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    !is_disabled && variable("TERM").is_none_or(|term| term != "dumb")
}

/// The FNV-1a hash of an id. It does not depend on the version of this program, and hence neither does a color.
fn fnv1a(id: &str) -> usize {
    let hash = id.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash as usize
}

impl Style {
    /// No colors.
    pub(crate) fn plain() -> Self {
        Self::default()
    }

    /// The team's colors. A member's color follows from the member's id. If an earlier member in the file has the same
    /// color, the member gets the next free one.
    pub(crate) fn for_team(team: &Team) -> Self {
        let mut members: Vec<(Box<str>, u8)> = Vec::new();
        for member in &team.members {
            let first = fnv1a(&member.id);
            let mut candidates = (0..COLORS.len()).map(|n| color(first.wrapping_add(n)));
            let free =
                candidates.find(|candidate| !members.iter().any(|(_, used)| used == candidate));
            members.push((member.id.clone(), free.unwrap_or_else(|| color(first))));
        }
        Self {
            members,
            is_colored: true,
        }
    }

    /// A member's name, bold and in the member's color. The name of a former member is bold only.
    pub(crate) fn name(&self, id: &str, name: &str) -> String {
        match self.members.iter().find(|(member, _)| **member == *id) {
            Some((_, color)) => self.styled(&format!("1;38;5;{color}"), name),
            None => self.styled("1", name),
        }
    }

    /// Styles a secondary text.
    pub(crate) fn dim(&self, text: &str) -> String {
        self.styled("2", text)
    }

    /// Styles an error.
    pub(crate) fn error(&self, text: &str) -> String {
        self.styled("31", text)
    }

    fn styled(&self, style: &str, text: &str) -> String {
        match self.is_colored {
            true => format!("\u{1b}[{style}m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }
}

fn color(number: usize) -> u8 {
    COLORS.get(number % COLORS.len()).copied().unwrap_or(33)
}

#[cfg(test)]
mod tests {
    use filrouge_team::team_file::Format;

    use super::*;

    fn team(names: &[&str]) -> Team {
        let mut text =
            String::from("name = \"t\"\n[[members]]\nname = \"ann\"\nkind = \"human\"\n");
        for name in names {
            text.push_str(&format!(
                "[[members]]\nname = \"{name}\"\nkind = \"agent\"\ncommand = \"cat\"\n"
            ));
        }
        Team::parse(&text, Format::Toml, std::path::Path::new("/")).unwrap()
    }

    #[test]
    fn each_member_keeps_a_separate_color() {
        let names: Vec<String> = (0..9).map(|n| format!("agent-{n}")).collect();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        let style = Style::for_team(&team(&names));
        let mut styled_names: Vec<_> = names.iter().map(|n| style.name(n, "x")).collect();
        styled_names.sort_unstable();
        styled_names.dedup();
        assert_eq!(styled_names.len(), 9);
        let in_small_team = Style::for_team(&team(&["agent-0"])).name("ann", "x");
        assert_eq!(style.name("ann", "x"), in_small_team);
        assert_eq!(Style::plain().name("ann", "x"), "x");
    }

    #[test]
    fn variables_of_the_environment_disable_colors() {
        assert!(wants_color(|_| None));
        let no_color = |name: &str| (name == "NO_COLOR").then(|| "1".to_owned());
        assert!(!wants_color(no_color));
        let empty = |name: &str| (name == "NO_COLOR").then(String::new);
        assert!(wants_color(empty));
        let dumb = |name: &str| (name == "TERM").then(|| "dumb".to_owned());
        assert!(!wants_color(dumb));
    }
}
