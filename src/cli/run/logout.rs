//! Whether a command ends at logout: systemd stops the manager of a user, with its scopes, when the user's last session ends, unless the
//! user lingers.

use node::users;
use std::path::Path;

/// Contains a file for each user who lingers.
const LINGERING: &str = "/var/lib/systemd/linger";

/// Whether a scope of this user's manager ends at the last logout. The scopes of root belong to the system's manager.
pub(super) fn ends_scopes() -> bool {
    let user = rustix::process::geteuid();
    // A user of a directory service is not in /etc/passwd.
    let name = || users::name_of(user.as_raw()).or_else(|| std::env::var("USER").ok());
    !user.is_root() && name().is_some_and(|name| !lingers(&name, Path::new(LINGERING)))
}

fn lingers(user: &str, lingering: &Path) -> bool {
    lingering.join(user).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_user_with_a_file_lingers() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("alice"), "").unwrap();
        assert!(lingers("alice", folder.path()) && !lingers("bob", folder.path()));
        assert!(!lingers("alice", &folder.path().join("missing")), "nobody has ever lingered");
    }
}
