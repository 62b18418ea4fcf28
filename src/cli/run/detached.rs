//! `flowctl run -d`: this program once more, in a session of its own, which tells on its error output how beginning went and then
//! closes it.

use super::{GpuShare, RunArgs};
use crate::cli::{Exit, Failure};
use crate::host::scope::ScopeName;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// Set for the program in the background.
pub(super) const IN_BACKGROUND: &str = "FLOWCON_RUN_IN_BACKGROUND";

/// The last that the program in the background says.
const BEGUN: &str = "\u{6}";

/// Begins the command in the background and prints its name.
pub(super) fn begin(args: RunArgs, socket: &Path) -> Result<ExitCode, Failure> {
    let failed = |what: &str, error: std::io::Error| {
        Failure::new(Exit::Failed, format!("{what}: {error}"), "run it without -d to see more")
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
    command.arg("--").args(&args.command).env(IN_BACKGROUND, "1");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed("starting a process", error))?;
    // Ends when it has begun or has failed.
    let mut told = String::new();
    if let Some(mut errors) = child.stderr.take() {
        errors.read_to_string(&mut told).map_err(|error| failed("waiting for it to begin", error))?;
    }
    if let Some(said) = told.strip_suffix(BEGUN) {
        eprint!("{said}");
        println!("{name}");
        return Ok(ExitCode::SUCCESS);
    }
    eprint!("{told}");
    let status = child.wait().map_err(|error| failed("waiting for it to begin", error))?;
    Ok(ExitCode::from(super::exit_code(status)))
}

/// Leaves the session of whoever started it, if this is the program in the background.
pub(super) fn leave() {
    if std::env::var_os(IN_BACKGROUND).is_some() {
        let _ = rustix::process::setsid(); // it leads one already
    }
}

/// Tells whoever waits that the command has begun.
pub(super) fn has_begun() {
    if std::env::var_os(IN_BACKGROUND).is_some()
        && let Ok(nowhere) = File::options().write(true).open("/dev/null")
    {
        eprint!("{BEGUN}");
        let _ = rustix::stdio::dup2_stderr(nowhere);
    }
}
