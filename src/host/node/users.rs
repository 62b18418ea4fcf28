//! Users and groups of this machine according to its files, and owners of subordinate users.

use std::fs;
use std::path::Path;

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";
const SUBORDINATES: &str = "/etc/subuid";

/// A configured user or group that does not exist on this machine.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{kind} `{name}` is not in {file}; if it comes from a directory service, use its number")]
pub struct UnknownName {
    kind: &'static str,
    name: String,
    file: &'static str,
}

/// Returns the number of a user, given as a number or as a name in `/etc/passwd`.
///
/// # Errors
/// [`UnknownName`].
pub fn uid_of(user: &str) -> Result<u32, UnknownName> {
    number_of("user", user, USERS)
}

/// Returns the number of a group, given as a number or as a name in `/etc/group`.
///
/// # Errors
/// [`UnknownName`].
pub fn gid_of(group: &str) -> Result<u32, UnknownName> {
    number_of("group", group, GROUPS)
}

/// Returns the name of a user in `/etc/passwd`.
pub fn name_of(uid: u32) -> Option<String> {
    let text = fs::read_to_string(USERS).ok()?;
    let number = uid.to_string();
    let line = text.lines().find(|line| line.split(':').nth(2) == Some(number.as_str()))?;
    line.split(':').next().map(str::to_owned)
}

/// Returns the name in `/etc/passwd` if it is safe for a terminal, otherwise the number.
pub fn name_or_number(uid: u32) -> String {
    let fits = |name: &String| name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    name_of(uid).filter(fits).unwrap_or_else(|| uid.to_string())
}

/// Returns the account that a user belongs to. A user in a range of `/etc/subuid` belongs to the owner of the range, who can become that
/// user at will.
pub fn account_of(uid: u32) -> u32 {
    let Ok(ranges) = fs::read_to_string(SUBORDINATES) else { return uid };
    owner_in(&ranges, uid).and_then(|owner| uid_of(owner).ok()).unwrap_or(uid)
}

/// Parses lines `alice:100000:65536`.
fn owner_in(ranges: &str, uid: u32) -> Option<&str> {
    ranges.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (owner, first, count) = (fields.next()?, fields.next()?.parse::<u32>().ok()?, fields.next()?);
        let count = count.trim().parse::<u32>().ok()?;
        (uid >= first && uid - first < count).then_some(owner)
    })
}

fn number_of(kind: &'static str, name: &str, file: &'static str) -> Result<u32, UnknownName> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    fs::read_to_string(Path::new(file)).ok().and_then(|text| number_in(&text, name)).ok_or_else(|| UnknownName {
        kind,
        name: name.to_owned(),
        file,
    })
}

/// Both files have the name in the first and the number in the third field.
fn number_in(text: &str, name: &str) -> Option<u32> {
    let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
    line.split(':').nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_and_a_number_is_used_as_is() {
        assert_eq!(uid_of("root"), Ok(0));
        assert_eq!((name_of(0).as_deref(), name_of(4_000_000_001)), (Some("root"), None));
        assert_eq!(gid_of("4711"), Ok(4711));
        assert_eq!(number_in("a:x:1:\nab:x:2:u\n", "ab"), Some(2));
    }

    #[test]
    fn the_error_for_an_unknown_group_names_the_group_and_the_file() {
        let message = gid_of("no-such-group-here").expect_err("unknown").to_string();
        assert!(message.contains("no-such-group-here") && message.contains("/etc/group"), "{message}");
    }

    #[test]
    fn a_subordinate_user_belongs_to_the_owner_of_its_range() {
        let ranges = "alice:100000:65536\nnonsense\nbob:165536:65536\n:4294967295:9\n";
        assert_eq!(owner_in(ranges, 100_000), Some("alice"));
        assert_eq!(owner_in(ranges, 165_535), Some("alice"));
        assert_eq!(owner_in(ranges, 165_536), Some("bob"));
        assert_eq!((owner_in(ranges, 99_999), owner_in(ranges, 1000)), (None, None));
        assert_eq!(account_of(0), 0);
    }
}
