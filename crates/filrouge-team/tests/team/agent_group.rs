//! An agent's processes are a process group, and none of them survives the agent.

use std::io::{BufRead as _, Write as _};
use std::process::Stdio;
use std::time::Duration;

use filrouge_team::agent::{Agent, AgentSettings};
use filrouge_team::team::Command;

use crate::agent::{read_to_end, shell};
use crate::test_conversation::{is_running, wait_for};

/// Starts an agent that prints the ids of its processes; returns those.
async fn start(command: &Command) -> (Agent, Vec<u32>) {
    let mut agent = Agent::start(command, String::new(), AgentSettings::default())
        .await
        .unwrap();
    let line = agent
        .next()
        .await
        .expect("the agent prints the ids of its processes");
    let pids = line.split_whitespace().map(|pid| pid.parse().unwrap());
    let pids: Vec<u32> = pids.collect();
    assert!(pids.iter().all(|pid| is_running(*pid)));
    (agent, pids)
}

/// Starts a child and a grandchild, and prints the ids of the agent and of both.
const PROCESS_TREE: &str = "sh -c 'sleep 1000 & echo $PPID $$ $!; wait' & wait";

fn all_ended(pids: &[u32]) -> bool {
    pids.iter().all(|pid| !is_running(*pid))
}

#[tokio::test]
async fn killing_an_agent_kills_every_process_it_started() {
    let (agent, pids) = start(&shell(PROCESS_TREE)).await;
    assert_eq!(pids.len(), 3);
    assert_eq!(agent.kill().await.error, None);
    wait_for("all processes to end", || all_ended(&pids).then_some(())).await;
}

#[tokio::test]
async fn dropping_an_agent_kills_every_process_it_started() {
    let (agent, pids) = start(&shell(PROCESS_TREE)).await;
    drop(agent);
    wait_for("all processes to end", || all_ended(&pids).then_some(())).await;
}

#[tokio::test]
async fn an_agent_gets_sigterm_before_it_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let agent = Command {
        folder: Some(folder.path().to_str().unwrap().into()),
        ..shell("trap 'echo bye > bye; exit 0' TERM; echo $$; sleep 1000 & wait")
    };
    let (agent, _) = start(&agent).await;
    agent.kill().await;
    assert_eq!(
        std::fs::read_to_string(folder.path().join("bye")).unwrap(),
        "bye\n"
    );
}

#[tokio::test]
async fn an_agent_that_ignores_signals_or_is_stopped_is_killed() {
    for script in [
        "trap '' TERM INT HUP; echo $$; sleep 1000; sleep 1000",
        "echo $$; kill -STOP $$; sleep 1000",
    ] {
        let command = shell(script);
        let settings = AgentSettings {
            grace: Duration::from_millis(100),
            ..AgentSettings::default()
        };
        let mut agent = Agent::start(&command, String::new(), settings)
            .await
            .unwrap();
        let pid: u32 = agent.next().await.unwrap().trim().parse().unwrap();
        assert_eq!(agent.pid(), Some(pid));
        agent.kill().await;
        assert!(!is_running(pid), "{script}");
    }
}

#[tokio::test]
async fn the_exit_of_an_agent_does_not_wait_for_a_process_that_keeps_its_output_open() {
    let settings = AgentSettings {
        linger: Duration::from_millis(200),
        ..AgentSettings::default()
    };
    let command = shell("sleep 1000 & echo $!");
    let agent = Agent::start(&command, String::new(), settings)
        .await
        .unwrap();
    let (output, exit) = read_to_end(agent).await;
    assert_eq!(exit.error, None);
    let pid = output.trim().parse().unwrap();
    wait_for("the grandchild to end", || all_ended(&[pid]).then_some(())).await;
}

#[tokio::test]
async fn the_last_output_of_a_grandchild_is_read() {
    let command = shell("(sleep 0.1; echo late) & echo early");
    let agent = Agent::start(&command, String::new(), AgentSettings::default()).await;
    assert_eq!(read_to_end(agent.unwrap()).await.0, "early\nlate\n");
}

#[tokio::test]
async fn no_zombie_remains() {
    for script in ["echo $$", "exit 3", "sleep 1000 & echo $!"] {
        let settings = AgentSettings {
            linger: Duration::from_millis(50),
            ..AgentSettings::default()
        };
        let agent = Agent::start(&shell(script), String::new(), settings)
            .await
            .unwrap();
        let pid = agent.pid().unwrap();
        read_to_end(agent).await;
        let stat = std::process::Command::new("ps")
            .args(["-o", "stat=", "-p", &pid.to_string()])
            .output();
        assert!(stat.unwrap().stdout.is_empty(), "{script}");
    }
    drop(
        Agent::start(
            &shell("sleep 1000"),
            String::new(),
            AgentSettings::default(),
        )
        .await
        .unwrap(),
    );
    let own = std::process::id().to_string();
    wait_for("all zombies to be reaped", || {
        let children = std::process::Command::new("ps")
            .args(["-o", "stat=", "--ppid", &own])
            .output();
        let children = String::from_utf8(children.unwrap().stdout).unwrap();
        (!children.lines().any(|stat| stat.starts_with('Z'))).then_some(())
    })
    .await;
}

/// The test that the child process runs.
const CHILD: &str = "agent_group::child_waits_to_be_killed";

/// Run by [`an_agent_does_not_outlive_a_process_that_is_killed`] in a separate process.
#[tokio::test]
#[ignore = "run by the test that kills it"]
async fn child_waits_to_be_killed() {
    let (_agent, pids) = start(&shell(PROCESS_TREE)).await;
    let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
    writeln!(std::io::stderr(), "processes {}", pids.join(" ")).unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn an_agent_does_not_outlive_a_process_that_is_killed() {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([CHILD, "--exact", "--ignored", "--nocapture"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    let pids = stderr.lines().map_while(Result::ok).find_map(|line| {
        let pids = line
            .strip_prefix("processes ")?
            .split(' ')
            .map(|pid| pid.parse().unwrap());
        Some(pids.collect::<Vec<u32>>())
    });
    let pids = pids.expect("the child starts an agent");
    assert_eq!(pids.len(), 3);
    assert!(pids.iter().all(|pid| is_running(*pid)));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("all processes to end", || all_ended(&pids).then_some(())).await;
}
