//! Places of a daemon that a user other than root starts, for commands of their own.

use config::Settings;
use std::path::PathBuf;

/// The default settings of this user's daemon: root's are those of the machine, everybody else's are below their home.
pub(crate) fn defaults() -> Settings {
    let settings = Settings::default();
    match state_dir() {
        Some(state_dir) => Settings { socket: socket_beside(state_dir.clone()), state_dir, ..settings },
        None => settings,
    }
}

/// The socket of the daemon that this user means without naming one: the machine's, or their own where only that one runs.
pub(crate) fn socket() -> PathBuf {
    let of_machine = Settings::default().socket;
    let own = state_dir().map(socket_beside).filter(|own| !of_machine.exists() && own.exists());
    own.unwrap_or(of_machine)
}

/// `$XDG_STATE_HOME/flowcon` or `~/.local/state/flowcon`; `None` for root and for users without a home.
fn state_dir() -> Option<PathBuf> {
    let of = |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = || of("XDG_STATE_HOME").or_else(|| Some(of("HOME")?.join(".local/state")));
    if rustix::process::geteuid().is_root() { None } else { Some(state()?.join("flowcon")) }
}

fn socket_beside(state_dir: PathBuf) -> PathBuf {
    let run = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    run.map_or(state_dir, |run| run.join("flowcon")).join("flowcond.sock")
}
