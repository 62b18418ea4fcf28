//! `flowctl run -d`: starts this program again in a new session. That process reports on its standard error whether the command
//! started, and then closes it.

use super::{GpuShare, RunArgs};
use crate::{Exit, Failure};
use scope::ScopeName;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use term::message;

/// Environment variable of the background process.
pub(super) const IN_BACKGROUND: &str = "FLOWCON_RUN_IN_BACKGROUND";

/// Written by the background process when the command has started.
const STARTED: &str = "\u{6}";

/// Starts the command in the background and prints its name.
pub(super) fn begin(args: RunArgs, socket: &Path) -> Result<ExitCode, Failure> {
    let failed = |what: &str, error: io::Error| {
        Failure::new(Exit::Failed, format!("cannot {what}: {error}"), "run it without -d to see more")
    };
    let name = args.name.unwrap_or_else(|| {
        ScopeName::of_command(&args.command[0].to_string_lossy(), std::process::id()).as_str().to_owned()
    });
    let mut command = Command::new("/proc/self/exe");
    command.arg("--socket").arg(socket).args(["run", "--name", &name]);
    for (key, value) in &args.labels {
        command.arg("--label").arg(format!("{key}={value}"));
    }
    if let Some(GpuShare(percent)) = args.gpu_share {
        command.arg("--gpu-share").arg(format!("{percent}%"));
    }
    if args.keep_env {
        command.arg("--keep-env");
    }
    if args.require_cgroup {
        command.arg("--require-cgroup");
    }
    if let Some(threads) = args.threads {
        command.arg("--threads").arg(threads.to_string());
    }
    command.arg("--").args(&args.command).env(IN_BACKGROUND, "1");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed("start a process", error))?;
    // The stream ends when the command has started or failed.
    let mut messages = String::new();
    if let Some(mut errors) = child.stderr.take() {
        errors.read_to_string(&mut messages).map_err(|error| failed("wait for the command to start", error))?;
    }
    if let Some(warnings) = messages.strip_suffix(STARTED) {
        message::pass_on(warnings);
        if !args.labels.iter().any(|(key, _)| key == "flowcon.log") {
            message::print(format_args!(
                "`flowctl logs {name}` prints its output while it runs; to keep it, let the command write it to a file"
            ));
        }
        writeln!(io::stdout(), "{name}")?;
        return Ok(ExitCode::SUCCESS);
    }
    message::pass_on(&messages);
    let status = child.wait().map_err(|error| failed("wait for the command to start", error))?;
    Ok(ExitCode::from(super::exit_code(status)))
}

/// Whether this is the background process.
pub(super) fn is_background() -> bool {
    std::env::var_os(IN_BACKGROUND).is_some()
}

/// Starts a new session, if this is the background process.
pub(super) fn leave() {
    if is_background() {
        let _ = rustix::process::setsid(); // fails only if it already leads one
    }
}

/// Reports that the command has started, if this is the background process.
pub(super) fn has_begun() {
    if is_background()
        && let Ok(nowhere) = File::options().write(true).open("/dev/null")
    {
        message::pass_on(STARTED);
        let _ = rustix::stdio::dup2_stderr(nowhere);
    }
}
