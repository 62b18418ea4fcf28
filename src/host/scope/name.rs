//! The names of a scope: for its owner, the daemon, and the kernel.

use super::ScopeError;
use std::fmt;
use std::path::Path;

/// A scope's name: at most 64 letters, digits, `.`, `_`, `-`, so that it is also valid in the name of a file, a unit and a cgroup.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopeName(String);

impl ScopeName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`ScopeError::BadName`].
    pub fn new(name: &str) -> Result<ScopeName, ScopeError> {
        let fits = (1..=64).contains(&name.len())
            && name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
        if fits { Ok(ScopeName(name.to_owned())) } else { Err(ScopeError::BadName(name.to_owned())) }
    }

    /// Returns a name for an unnamed command: its program and a unique number.
    pub fn of_command(program: &str, number: u32) -> ScopeName {
        let base = Path::new(program).file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let mut name: String = base
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' })
            .collect();
        name.truncate(48);
        if !name.starts_with(|first: char| first.is_ascii_alphanumeric()) {
            name.insert(0, 'x');
        }
        ScopeName(format!("{name}-{number}"))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the last component of the scope's cgroup if `flowctl run` creates it.
    pub fn cgroup(&self) -> String {
        format!("flowcon-{}", self.0)
    }

    /// Returns the unit, and last component of the cgroup, if systemd creates it.
    pub fn unit(&self) -> String {
        format!("flowcon-{}.scope", self.0)
    }
}

impl fmt::Display for ScopeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_valid_as_a_file_name_and_a_unit_name() {
        for bad in ["", ".", "..", "a/b", "-x", "a b", "ä", "a@b", &"x".repeat(65)] {
            assert!(ScopeName::new(bad).is_err(), "{bad}");
        }
        assert!(ScopeName::new("train-2.py_x").is_ok());
        assert_eq!(ScopeName::of_command("/usr/bin/python3", 9).as_str(), "python3-9");
        for program in ["../..", "", "weird name(1)", "日本"] {
            ScopeName::new(ScopeName::of_command(program, 4_000_000).as_str()).unwrap();
        }
    }
}
