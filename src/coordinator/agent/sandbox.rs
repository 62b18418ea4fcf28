//! Whether the agent can write the engine's volumes: its unit has a read-only system, except for the folders in ReadWritePaths=.

use rustix::fs::Access;
use std::io;
use std::path::Path;

/// Returns why the volumes in an engine's data directory cannot be written, with the next step; `None` = they can.
pub(super) fn problem(data: &Path) -> Option<String> {
    let volumes = data.join("volumes");
    let error = rustix::fs::access(&volumes, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).err()?;
    let is_home = ["/home", "/root"].iter().any(|home| volumes.starts_with(home));
    let home = if is_home { " and ProtectHome=read-only" } else { "" };
    let volumes = volumes.display();
    Some(format!(
        "{volumes}: this agent cannot write there ({error}), so jobs with saved state can neither start on this node nor leave it; run `systemctl edit flowcoord-agent`, add [Service] and below it ReadWritePaths={volumes}{home}, and restart the unit (flowctl help cluster, UNITS)"
    ))
}

/// Returns an error of access to a volume as text, with the next step if the sandbox may be its cause.
pub(super) fn explained(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => format!(
            "its agent cannot write the engine's volumes ({error}); add ReadWritePaths= to its unit (flowctl help cluster, UNITS)"
        ),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_written_is_reported_with_the_lines_of_the_drop_in() {
        let data = tempfile::tempdir().expect("a folder");
        let problem_of_unit = problem(data.path()).expect("there is no folder of volumes");
        let line = format!("ReadWritePaths={}/volumes", data.path().display());
        assert!(problem_of_unit.contains(&line), "{problem_of_unit}");
        std::fs::create_dir(data.path().join("volumes")).expect("made");
        assert_eq!(problem(data.path()), None);
        let hidden = problem(Path::new("/home/none/docker")).expect("there is no such folder");
        assert!(hidden.contains("/home/none/docker/volumes and ProtectHome=read-only"), "{hidden}");
    }

    #[test]
    fn only_errors_that_the_sandbox_causes_name_the_drop_in() {
        assert!(explained(&io::ErrorKind::ReadOnlyFilesystem.into()).contains("ReadWritePaths="));
        assert!(!explained(&io::ErrorKind::StorageFull.into()).contains("ReadWritePaths="));
    }
}
