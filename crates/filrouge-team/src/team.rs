//! A team and its members.

use std::time::Duration;

/// A team as its file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Team {
    /// Its id, from its name alone.
    pub id: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// What it is for, told to its agents.
    pub description: Option<Box<str>>,
    /// Its members, at least one of them a human, in the order of the file.
    pub members: Vec<Member>,
    /// The task that a new session begins with.
    pub task: Option<Box<str>>,
}

/// A member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its id, from its name alone; unique in the team.
    pub id: Box<str>,
    /// The name it is addressed by.
    pub name: Box<str>,
    /// Its part in the team, told to agents.
    pub role: Option<Box<str>>,
    /// What it is.
    pub kind: MemberKind,
}

/// What a member is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberKind {
    /// A person at the terminal.
    Human,
    /// A command.
    Agent(Command),
}

/// How an agent is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The program; a path with a `/` is relative to the team file's folder.
    pub program: Box<str>,
    /// Its arguments; `{prompt}` in one of them stands for the prompt.
    pub arguments: Vec<Box<str>>,
    /// Variables set for it beside those of the terminal.
    pub environment: Vec<(Box<str>, Box<str>)>,
    /// The folder it works in; else the current one.
    pub folder: Option<Box<str>>,
    /// How its prompt is written; `None`: the standard way.
    pub template: Option<Box<str>>,
    /// After so long it is ended.
    pub timeout: Duration,
}

impl Team {
    /// The first human: who has the floor when nobody else is addressed.
    #[must_use]
    pub fn first_human(&self) -> Option<&Member> {
        let mut members = self.members.iter();
        members.find(|member| member.kind == MemberKind::Human)
    }

    /// A member by its id.
    #[must_use]
    pub fn member(&self, id: &str) -> Option<&Member> {
        self.members.iter().find(|member| &*member.id == id)
    }
}
