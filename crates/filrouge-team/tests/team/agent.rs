//! The prompt, the output and the exit of an agent's process.

use std::path::Path;
use std::time::Duration;

use filrouge_team::agent::{Agent, AgentExit, AgentSettings};
use filrouge_team::message::Cut;
use filrouge_team::record::AgentError;
use filrouge_team::team::Command;

use crate::test_conversation::TIMEOUT;

/// An agent that runs a shell script.
pub(crate) fn shell(script: &str) -> Command {
    command("sh", &["-c", script])
}

/// An agent that runs a program.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    Command {
        program: program.into(),
        arguments: arguments
            .iter()
            .map(|argument| (*argument).into())
            .collect(),
        environment: vec![],
        folder: None,
        template: None,
        timeout: TIMEOUT,
    }
}

/// Starts an agent, and returns its output and its exit.
async fn run(command: &Command, prompt: &str) -> (String, AgentExit) {
    let agent = Agent::start(command, prompt.to_owned(), AgentSettings::default()).await;
    read_to_end(agent.expect("the agent starts")).await
}

/// Reads an agent's output until it ends.
pub(crate) async fn read_to_end(mut agent: Agent) -> (String, AgentExit) {
    let reading = async {
        let mut output = String::new();
        while let Some(text) = agent.next().await {
            assert!(!text.is_empty());
            output.push_str(&text);
        }
        (output, agent.end().await)
    };
    tokio::time::timeout(TIMEOUT, reading)
        .await
        .expect("the agent ends in time")
}

/// The error of an agent that cannot be started.
async fn start_error(command: &Command, prompt: &str) -> AgentError {
    let agent = Agent::start(command, prompt.to_owned(), AgentSettings::default()).await;
    let error = agent.expect_err("the agent does not start");
    assert_eq!((error.code, error.cut), ("agent_not_started", Cut::Failed));
    error
}

#[tokio::test]
async fn a_prompt_of_any_size_is_written_to_stdin() {
    let prompt = "red thread 红线\n".repeat(500_000);
    let (output, exit) = run(&shell("cat"), &prompt).await;
    assert!(
        output == prompt,
        "{} bytes of {}",
        output.len(),
        prompt.len()
    );
    assert_eq!(exit, success());
}

#[tokio::test]
async fn a_prompt_may_be_part_of_an_argument() {
    let echo = command("printf", &["%s|%s", "<{prompt}>", "{prompt}"]);
    assert_eq!(
        run(&echo, "a\0b").await,
        ("<a\u{fffd}b>|a\u{fffd}b".into(), success())
    );
    let stdin = command("sh", &["-c", "cat; echo $1", "sh", "{prompt}"]);
    assert_eq!(run(&stdin, "x").await.0, "x\n");
    let error = start_error(&echo, &"x".repeat(3 << 20)).await;
    assert!(error.detail.contains("goes to stdin"), "{error:?}");
}

#[tokio::test]
async fn an_agent_need_not_read_its_prompt() {
    let prompt = "x".repeat(4 << 20);
    for script in [
        "exec 0<&-; echo ok",
        "echo ok",
        "head -c 5 > /dev/null; echo ok",
    ] {
        assert_eq!(
            run(&shell(script), &prompt).await,
            ("ok\n".into(), success()),
            "{script}"
        );
    }
}

#[tokio::test]
async fn variables_and_folder_are_set() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("here"), "").unwrap();
    let agent = Command {
        environment: vec![("THREAD".into(), "red".into())],
        folder: Some(folder.path().to_str().unwrap().into()),
        ..shell("echo $THREAD; ls; test -n \"$PATH\"")
    };
    assert_eq!(run(&agent, "").await, ("red\nhere\n".into(), success()));
}

#[tokio::test]
async fn text_is_streamed_as_complete_characters_without_controls() {
    let script = "printf 'a\\347\\272'; sleep 0.05; printf '\\242\\033[3'; sleep 0.05; printf '1mred\\377\\r\\n'";
    let (output, exit) = run(&shell(script), "").await;
    assert_eq!(
        (output.as_str(), exit.replaced),
        ("a\u{7ea2}red\u{fffd}\n", 1)
    );
    let folder = tempfile::tempdir().unwrap();
    let waiting = Command {
        folder: Some(folder.path().to_str().unwrap().into()),
        ..shell("echo first; while [ ! -e go ]; do sleep 0.01; done; echo second")
    };
    let agent = Agent::start(&waiting, String::new(), AgentSettings::default()).await;
    let mut agent = agent.expect("the agent starts");
    assert_eq!(agent.next().await.as_deref(), Some("first\n"));
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(read_to_end(agent).await.0, "second\n");
}

#[tokio::test]
async fn exit_codes_signals_and_stderr_are_reported() {
    for (script, code, detail) in [
        ("exit 7", "agent_exit", "it ended with exit code 7"),
        ("kill -9 $$", "agent_signal", "signal 9 ended it"),
        (
            "printf '\\033[31mno key\\033[0m\\n' >&2; exit 1",
            "agent_exit",
            "it ended with exit code 1; stderr: no key",
        ),
    ] {
        let error = run(&shell(script), "").await.1.error.unwrap();
        assert_eq!(
            (error.code, &*error.detail, error.cut),
            (code, detail, Cut::Failed)
        );
    }
    let (_, exit) = run(&shell("echo careful >&2"), "").await;
    assert_eq!((exit.error, &*exit.stderr), (None, "careful"));
    let flood =
        "i=0; while [ $i -lt 3000 ]; do echo \"line $i of stderr é\" >&2; i=$((i+1)); done; exit 1";
    let (_, exit) = run(&shell(flood), "").await;
    assert!(exit.stderr.len() <= 4 << 10 && exit.stderr.ends_with("line 2999 of stderr é"));
}

#[tokio::test]
async fn the_error_of_a_failed_start_advises_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("text"), "no program").unwrap();
    std::fs::write(path("script"), "#!/no/such/interpreter\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path("script"), mode).unwrap();
    let missing_folder = Command {
        folder: Some("/no/such/folder".into()),
        ..shell("true")
    };
    for (agent, advice) in [
        (command("no-such-program", &[]), "install it"),
        (command("claude -p", &[]), "arguments go into args"),
        (command(&path("missing"), &[]), "install it"),
        (command(&path("text"), &[]), "may not be run"),
        (command(&path("script"), &[]), "interpreter"),
        (
            missing_folder,
            "its folder \"/no/such/folder\" does not exist",
        ),
    ] {
        let error = start_error(&agent, "prompt").await;
        assert!(error.detail.contains(advice), "{error:?}");
    }
    assert!(Path::new("/bin/sh").exists());
}

#[tokio::test]
async fn an_agent_that_times_out_is_stopped() {
    let agent = Command {
        timeout: Duration::from_millis(300),
        ..shell("echo started; sleep 1000")
    };
    let (output, exit) = run(&agent, "").await;
    assert_eq!(output, "started\n");
    assert_eq!(exit.error.unwrap().code, "agent_timeout");
    let closed = Command {
        timeout: Duration::from_millis(300),
        ..shell("exec >&-; sleep 1000")
    };
    assert_eq!(
        run(&closed, "").await.1.error.unwrap().code,
        "agent_timeout"
    );
    let no_timeout = Command {
        timeout: Duration::MAX,
        ..shell("echo ok")
    };
    assert_eq!(run(&no_timeout, "").await, ("ok\n".into(), success()));
}

/// The exit of an agent without an error.
fn success() -> AgentExit {
    AgentExit {
        error: None,
        replaced: 0,
        stderr: "".into(),
    }
}
