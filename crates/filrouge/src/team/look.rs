//! Colours: each member's own, the same in every session.

use filrouge_team::team::Team;

/// Colours that can be read on dark and on light ground, of the 256.
const COLOURS: [u8; 10] = [33, 37, 64, 98, 130, 136, 161, 166, 29, 133];

/// Whether and how words are coloured.
#[derive(Debug, Clone, Default)]
pub(crate) struct Look {
    /// Members' ids with their colours; empty where there are no colours.
    members: Vec<(Box<str>, u8)>,
    is_coloured: bool,
}

/// Whether what is written to a terminal may be coloured (<https://no-color.org>).
pub(crate) fn wants_colour(variable: impl Fn(&str) -> Option<String>) -> bool {
    let off = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    !off && variable("TERM").is_none_or(|term| term != "dumb")
}

/// FNV-1a: a number of an id that never changes.
fn number(id: &str) -> usize {
    let hash = id.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash as usize
}

impl Look {
    /// No colours at all.
    pub(crate) fn plain() -> Self {
        Self::default()
    }

    /// The team's colours: each member's follows from its id; where two have one, the later of the file takes the next.
    pub(crate) fn of(team: &Team) -> Self {
        let mut members: Vec<(Box<str>, u8)> = Vec::new();
        for member in &team.members {
            let first = number(&member.id);
            let mut wishes = (0..COLOURS.len()).map(|n| colour(first.wrapping_add(n)));
            let free = wishes.find(|wish| !members.iter().any(|(_, taken)| taken == wish));
            members.push((member.id.clone(), free.unwrap_or_else(|| colour(first))));
        }
        Self {
            members,
            is_coloured: true,
        }
    }

    /// A name, bold and in its member's colour; of somebody who is no member now, bold alone.
    pub(crate) fn name(&self, id: &str, name: &str) -> String {
        match self.members.iter().find(|(member, _)| **member == *id) {
            Some((_, colour)) => self.styled(&format!("1;38;5;{colour}"), name),
            None => self.styled("1", name),
        }
    }

    /// What is beside the matter.
    pub(crate) fn dim(&self, text: &str) -> String {
        self.styled("2", text)
    }

    /// What is wrong.
    pub(crate) fn wrong(&self, text: &str) -> String {
        self.styled("31", text)
    }

    fn styled(&self, style: &str, text: &str) -> String {
        match self.is_coloured {
            true => format!("\u{1b}[{style}m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }
}

fn colour(number: usize) -> u8 {
    COLOURS.get(number % COLOURS.len()).copied().unwrap_or(33)
}

#[cfg(test)]
mod tests {
    use filrouge_team::team_file::Form;

    use super::*;

    fn team(names: &[&str]) -> Team {
        let mut text =
            String::from("name = \"t\"\n[[members]]\nname = \"ann\"\nkind = \"human\"\n");
        for name in names {
            text.push_str(&format!(
                "[[members]]\nname = \"{name}\"\nkind = \"agent\"\ncommand = \"cat\"\n"
            ));
        }
        Team::of(&text, Form::Toml, std::path::Path::new("/")).unwrap()
    }

    #[test]
    fn a_member_keeps_its_colour_and_nobody_has_anothers() {
        let names: Vec<String> = (0..9).map(|n| format!("agent-{n}")).collect();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        let look = Look::of(&team(&names));
        let mut all: Vec<_> = names.iter().map(|n| look.name(n, "x")).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 9);
        let alone = Look::of(&team(&["agent-0"])).name("ann", "x");
        assert_eq!(look.name("ann", "x"), alone);
        assert_eq!(Look::plain().name("ann", "x"), "x");
    }

    #[test]
    fn who_wants_no_colour_gets_none() {
        assert!(wants_colour(|_| None));
        let no = |name: &str| (name == "NO_COLOR").then(|| "1".to_owned());
        assert!(!wants_colour(no));
        let empty = |name: &str| (name == "NO_COLOR").then(String::new);
        assert!(wants_colour(empty));
        let dumb = |name: &str| (name == "TERM").then(|| "dumb".to_owned());
        assert!(!wants_colour(dumb));
    }
}
