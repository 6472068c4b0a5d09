//! English.

use super::Words;

pub(super) static WORDS: Words = Words {
    found_one: "Found an earlier session ({when}, {count}).",
    choose_one: "[R] Resume  [N] Start new",
    found_many: "Found {n} earlier sessions:",
    choose_many: "[1-{n}] Resume that one  [R] Resume the newest  [N] Start new",
    in_file: "in the file {file}",
    newer_file: "newer in the file {file}",
    held: "open elsewhere: {holder}",
    nothing_begun: "No session was started.",
    message_one: "{n} message",
    message_many: "{n} messages",
    just_now: "just now",
    minute_one: "{n} minute ago",
    minute_many: "{n} minutes ago",
    today: "today {time}",
    yesterday: "yesterday {time}",
    on_day: "{date} {time}",
    began: "Team {team}: {members}. /help lists the commands.",
    resumed: "Resumed: {when}, {count}.",
    earlier: "note: earlier sessions of this team: {n}, the newest {when}, {count}; --resume continues it",
    drift: "No longer in the team: {names}. What they said stays.",
    was_interrupted: "{id} was interrupted when filrouge ended; the text until then is kept.",
    thinking: "{name} is thinking",
    cancelled: "cancelled",
    failed: "failed",
    interrupted: "interrupted",
    said_nothing: "said nothing",
    agent_failed: "{name} failed: {why}",
    unresolved: "Unknown: {names}. Members: {members}.",
    malformed: "{n} pieces of the output were not UTF-8.",
    agent_turns: "{n} messages of agents in a row: you have the floor.",
    dropped: "Waiting members removed from the queue: {n}.",
    task: "Task: {task}",
    no_task: "There is no task.",
    task_not_set: "The task was not set: {why}",
    not_kept: "The last entry could not be recorded: {why}",
    snapshot_not_written: "The snapshot file was not written: {why}",
    snapshot_not_read: "A snapshot file was not read: {why}",
    stopping: "Stopping; Ctrl-C again leaves.",
    leave_hint: "Ctrl-C again, or Ctrl-D, leaves.",
    left: "Kept: session {id}. Deploy the team again to continue.",
    ended: "Ended, and kept: session {id}.",
    unknown_command: "There is no {command}. /help lists the commands; //… says a message that begins with a slash.",
    name_a_file: "Name a team file: /team deploy FILE",
    no_number: "{text} is no number.",
    no_words: "Name the words to find: /search WORDS",
    human: "human",
    agent: "agent",
    waiting: "Waiting: {names}. An empty line lets them speak.",
    no_messages: "Nothing has been said yet.",
    not_found: "Nothing found.",
    not_said: "Not said: {why}",
    help: "\
/task [TEXT]        show what the team works on, or set it; /task - removes it
/members            who is in the team
/history [N]        the last N messages
/search WORDS       search this team's sessions
/pause              leave; the session can be resumed
/end                end the session
/team deploy FILE   leave, and deploy another team
/help               this list
//…                 a message that begins with a slash
[NEXT: name] or @name in a message names the next speaker. Ctrl-C stops the present one; Ctrl-D leaves.",
};
