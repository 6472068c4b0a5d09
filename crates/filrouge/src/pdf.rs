//! Prints HTML documents as PDF, with a Chromium that is installed.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, geteuid, kill_process_group};

/// The names under which Chromium is installed.
const PROGRAMS: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

/// The time after which a browser that has not finished is killed.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Arguments with which the browser starts no background work and resolves no host, so that nothing leaves the machine.
const ARGUMENTS: [&str; 12] = [
    "--headless",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-first-run",
    "--no-pings",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--no-pdf-header-footer",
];

/// Prints an HTML document as PDF. Blocks until the browser has finished.
///
/// # Errors
/// No browser is installed, or it fails, or it takes longer than [`TIME_LIMIT`].
pub(crate) fn print_pdf(html: &str) -> anyhow::Result<Vec<u8>> {
    let Some(program) = installed(env::var_os("PATH").unwrap_or_default().as_ref()) else {
        let names = PROGRAMS.join(", ");
        bail!(
            "a PDF needs Chromium, and none of {names} is on the path; install it, or export html and print that"
        );
    };
    print_with(&program, html, TIME_LIMIT)
}

/// The first of [`PROGRAMS`] in the folders of `path`.
fn installed(path: &std::ffi::OsStr) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = env::split_paths(path).collect();
    let in_folders = |name| folders.iter().map(move |folder| folder.join(name));
    let mut candidates = PROGRAMS.into_iter().flat_map(in_folders);
    candidates.find(|program| program.is_file())
}

/// Prints with `program`, in a temporary folder that only this user can read.
fn print_with(program: &Path, html: &str, limit: Duration) -> anyhow::Result<Vec<u8>> {
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let place = |name| folder.path().join(name);
    let (page, pdf, errors) = (place("page.html"), place("page.pdf"), place("errors"));
    fs::write(&page, html).context("the page cannot be written")?;
    let mut command = Command::new(program);
    command
        .args(ARGUMENTS)
        .arg(format!("--user-data-dir={}", place("profile").display()))
        .arg(format!("--print-to-pdf={}", pdf.display()));
    if geteuid().is_root() {
        // Chromium refuses to run as root with its sandbox. The page has no scripts.
        command.arg("--no-sandbox");
    }
    command
        .arg(&page)
        .env("HOME", folder.path())
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_CACHE_HOME")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&errors)?)
        .process_group(0);
    let name = program.display();
    let mut child = command
        .spawn()
        .with_context(|| format!("{name} does not start"))?;
    let began = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Some(status),
            None if began.elapsed() > limit => break None,
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    // Its helper processes must not outlive it. The call fails if there are none.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    let Some(status) = status else {
        let _ = child.wait();
        let seconds = limit.as_secs();
        bail!("{name} did not finish within {seconds} s; export html and print that");
    };
    let bytes = fs::read(&pdf).unwrap_or_default();
    if !status.success() || !bytes.starts_with(b"%PDF-") {
        let errors = fs::read_to_string(&errors).unwrap_or_default();
        let last = errors.lines().last().unwrap_or_default();
        bail!("{name} printed no PDF ({status}): {last}");
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A substitute for Chromium.
    fn program(folder: &Path, script: &str) -> PathBuf {
        let path = folder.join("chromium");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn a_browser_that_hangs_is_killed_with_its_helpers() {
        let folder = tempfile::tempdir().unwrap();
        let helper = folder.path().join("helper");
        let script = format!("sleep 1000 & echo $! > {}; wait", helper.display());
        let program = program(folder.path(), &script);
        let error = print_with(&program, "<p>x", Duration::from_secs(2)).unwrap_err();
        assert!(error.to_string().contains("did not finish"), "{error}");
        let pid = fs::read_to_string(&helper).unwrap();
        let stat = PathBuf::from(format!("/proc/{}/stat", pid.trim()));
        let began = Instant::now();
        // A killed process whose parent has not read its status is a zombie, Z.
        while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(began.elapsed() < Duration::from_secs(30), "the helper runs");
            thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_browser_that_fails_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let program = program(folder.path(), "echo first >&2; echo no display >&2; exit 3");
        let error = print_with(&program, "<p>x", TIME_LIMIT).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("printed no PDF") && text.ends_with("no display"),
            "{text}"
        );
    }

    #[test]
    fn the_first_program_on_the_path_is_used() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(installed(folder.path().as_os_str()), None);
        let program = program(folder.path(), "");
        assert_eq!(installed(folder.path().as_os_str()), Some(program));
    }
}
