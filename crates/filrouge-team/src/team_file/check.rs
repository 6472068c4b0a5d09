//! Checks that a team file describes a team that can run.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use filrouge_types::{ErrorCode, Failure, Object, duration};

use super::{FileMember, FileMemberKind, MAX_AGENT_TURNS, TeamFile};
use crate::context::TEAM_TASK_BYTES_MAX;
use crate::team::{Command, Member, MemberKind, Team, comparison_key, derive_id};

/// The maximum number of bytes of a name: ids are derived from names and have at most 256.
const NAME_BYTES_MAX: usize = 200;

/// The maximum number of members: every agent's prompt names every member.
const MEMBERS_MAX: usize = 100;

/// The timeout of an agent whose member names none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// The speaker id of the application's own messages, which no member may have.
const SYSTEM_ID: &str = "system";

/// Characters that names cannot have, because markers and mentions use them.
const MARKER_CHARS: &[char] = &[
    '[', ']', ',', ';', ':', '!', '@', '`', '"', '\\', '，', '、', '；', '：', '﹕', '！', '،',
];

/// Checks a team file and builds the team; paths in it are relative to `folder`.
pub(super) fn build_team(file: TeamFile, folder: &Path) -> Result<Team, Failure> {
    check_name("name", &file.name)?;
    let task_bytes = file.task.as_ref().map_or(0, String::len);
    if task_bytes > TEAM_TASK_BYTES_MAX {
        let detail =
            format!("it has {task_bytes} bytes, at most {TEAM_TASK_BYTES_MAX} are allowed");
        let hint = "put the long part into a file, and name that in the task";
        return Err(invalid_field("task", &detail, hint));
    }
    if file.max_agent_turns == Some(0) {
        let hint = "1 lets one agent answer before a human has the floor again";
        return Err(invalid_field("max_agent_turns", "it is 0", hint));
    }
    if file.members.is_empty() {
        let hint = "a team has one human at least, and agents: add [[members]]";
        return Err(invalid_field("members", "there is none", hint));
    }
    if file.members.len() > MEMBERS_MAX {
        let detail = format!(
            "there are {}, at most {MEMBERS_MAX} are allowed",
            file.members.len()
        );
        let hint = "make several teams of them";
        return Err(invalid_field("members", &detail, hint));
    }
    let members: Vec<Member> = file
        .members
        .into_iter()
        .enumerate()
        .map(|(index, Object(member))| build_member(&format!("members[{index}]"), member, folder))
        .collect::<Result<_, _>>()?;
    check_distinct_names(&members)?;
    if !members.iter().any(|member| !member.is_agent()) {
        let hint = "add yourself: name = \"…\", kind = \"human\"";
        let detail = "there is no human among them";
        return Err(invalid_field("members", detail, hint));
    }
    Ok(Team {
        id: derive_id(&file.name),
        name: file.name.into(),
        description: file.description.map(Into::into),
        members,
        task: file
            .task
            .filter(|task| !task.trim().is_empty())
            .map(Into::into),
        max_agent_turns: file.max_agent_turns.unwrap_or(MAX_AGENT_TURNS),
    })
}

/// Checks a member and builds it. `path` is its position in the file, for failures.
fn build_member(path: &str, file: FileMember, folder: &Path) -> Result<Member, Failure> {
    let field = |name: &str| format!("{path}.{name}");
    check_name(&field("name"), &file.name)?;
    if let Some(c) = file.name.chars().find(|c| MARKER_CHARS.contains(c)) {
        let detail = format!("{:?} has the character {c:?}, which markers use", file.name);
        let hint = "names consist of letters, digits, blanks, - and _";
        return Err(invalid_field(&field("name"), &detail, hint));
    }
    let (id, member_name, role) = (derive_id(&file.name), file.name.clone(), file.role.clone());
    let kind = match file.kind {
        FileMemberKind::Human => check_human(path, &file)?,
        FileMemberKind::Agent => MemberKind::Agent(build_command(path, file, folder)?),
    };
    Ok(Member {
        id,
        name: member_name.into(),
        role: role.filter(|role| !role.trim().is_empty()).map(Into::into),
        kind,
    })
}

/// Checks that a human has no field of agents.
fn check_human(path: &str, file: &FileMember) -> Result<MemberKind, Failure> {
    let agent_fields = [
        ("command", file.command.is_some()),
        ("args", file.args.is_some()),
        ("env", file.env.is_some()),
        ("cwd", file.cwd.is_some()),
        ("prompt_template", file.prompt_template.is_some()),
        ("timeout", file.timeout.is_some()),
    ];
    match agent_fields.iter().find(|(_, is_given)| *is_given) {
        None => Ok(MemberKind::Human),
        Some((name, _)) => Err(invalid_field(
            &format!("{path}.{name}"),
            "a human takes none",
            "is it an agent? kind = \"agent\"",
        )),
    }
}

fn build_command(path: &str, file: FileMember, folder: &Path) -> Result<Command, Failure> {
    let field = |name: &str| format!("{path}.{name}");
    let program = file.command.unwrap_or_default();
    if program.trim().is_empty() {
        let hint = "command = \"claude\"; arguments go into args";
        let detail = "an agent needs a program";
        return Err(invalid_field(&field("command"), detail, hint));
    }
    let arguments = file.args.unwrap_or_default();
    let texts = arguments.iter().chain([&program]).chain(&file.cwd);
    if texts.into_iter().any(|text| text.contains('\0')) {
        let detail = "the command has a NUL character";
        return Err(invalid_field(&field("command"), detail, "remove it"));
    }
    let template = file.prompt_template.map(|text| text.parse()).transpose();
    let template = template.map_err(|error: crate::prompt::TemplateError| {
        invalid_field(&field("prompt_template"), &error.to_string(), error.hint())
    })?;
    Ok(Command {
        program: if program.contains('/') {
            absolute_path(&field("command"), folder, &program)?
        } else {
            program.into()
        },
        arguments: arguments.into_iter().map(Into::into).collect(),
        environment: environment(&field("env"), file.env.unwrap_or_default())?,
        folder: (file.cwd)
            .map(|cwd| absolute_path(&field("cwd"), folder, &cwd))
            .transpose()?,
        template,
        timeout: timeout(&field("timeout"), file.timeout.as_deref())?,
    })
}

fn absolute_path(field: &str, folder: &Path, path: &str) -> Result<Box<str>, Failure> {
    let absolute = folder.join(path);
    absolute.to_str().map(Into::into).ok_or_else(|| {
        let detail = "the team file's folder has a name that is not UTF-8";
        invalid_field(field, detail, "write the absolute path")
    })
}

type Variables = Vec<(Box<str>, Box<str>)>;

fn environment(field: &str, env: BTreeMap<String, String>) -> Result<Variables, Failure> {
    for (name, value) in &env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            let hint = "a variable's name is not empty and has no =";
            let detail = format!("{name:?} cannot be set");
            return Err(invalid_field(field, &detail, hint));
        }
    }
    let variables = env.into_iter();
    Ok(variables
        .map(|(name, value)| (name.into(), value.into()))
        .collect())
}

fn timeout(field: &str, text: Option<&str>) -> Result<Duration, Failure> {
    let Some(text) = text else {
        return Ok(DEFAULT_TIMEOUT);
    };
    duration(text)
        .filter(|time| !time.is_zero())
        .ok_or_else(|| {
            let detail = format!("{text:?} is no time");
            invalid_field(field, &detail, "a number with s, m or h: \"90s\", \"10m\"")
        })
}

/// Checks a name of a team or a member.
fn check_name(field: &str, name: &str) -> Result<(), Failure> {
    let detail = if name.trim().is_empty() {
        "it is empty".to_owned()
    } else if name.trim() != name {
        format!("{name:?} begins or ends with a blank")
    } else if name.len() > NAME_BYTES_MAX {
        format!(
            "it has {} bytes, at most {NAME_BYTES_MAX} are allowed",
            name.len()
        )
    } else if let Some(c) = name.chars().find(|c| is_invisible(*c)) {
        format!("{name:?} has the character {c:?}, which is invisible")
    } else {
        return Ok(());
    };
    let hint = "a name is a word or a few: \"Ada\"";
    Err(invalid_field(field, &detail, hint))
}

/// Whether a character is invisible: control characters, and those that reorder text or have no width. Joiners, which
/// scripts and emoji need, are allowed: comparing names ignores them.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Checks that no two members have similar names or ids, so that a marker means exactly one of them.
fn check_distinct_names(members: &[Member]) -> Result<(), Failure> {
    let mut index_by_key: BTreeMap<String, usize> = BTreeMap::new();
    for (index, member) in members.iter().enumerate() {
        let field = format!("members[{index}].name");
        for key in [comparison_key(&member.name), comparison_key(&member.id)] {
            if key == SYSTEM_ID {
                let hint = "the application's own notes have this name: take another one";
                return Err(invalid_field(&field, "\"system\" is not for members", hint));
            }
            let other = *index_by_key.entry(key).or_insert(index);
            if other != index {
                let detail = format!("{:?} reads like the name of members[{other}]", member.name);
                let hint = "names differ in more than case and width";
                return Err(invalid_field(&field, &detail, hint));
            }
        }
    }
    Ok(())
}

fn invalid_field(field: &str, detail: &str, hint: &str) -> Failure {
    Failure::new(ErrorCode::Invalid, format!("{field}: {detail}")).with_hint(hint)
}
