//! Which process a number means: number and start time together.

use super::CgroupError;
use serde::{Deserialize, Serialize};
use std::fs;

/// When a process started, in clock ticks since boot (`/proc/PID/stat`, field 22). With the process number it names one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StartTime(pub u64);

/// When process `pid` started; `None` when there is no such process.
pub fn start_time(pid: u32) -> Option<StartTime> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The start time of `pid`, if it lives and is the expected process.
pub(super) fn living(pid: u32, expected: Option<StartTime>) -> Result<StartTime, CgroupError> {
    let found = start_time(pid).ok_or(CgroupError::ProcessGone { pid })?;
    if expected.is_some_and(|expected| expected != found) {
        return Err(CgroupError::ProcessGone { pid });
    }
    Ok(found)
}

/// CPU time that process `pid` has used, in clock ticks; `None` when there is no such process.
pub(super) fn cpu_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(field(&stat, 14)?.saturating_add(field(&stat, 15)?))
}

fn parse(stat: &str) -> Option<StartTime> {
    field(stat, 22).map(StartTime)
}

/// A number of `/proc/PID/stat` by its place in `proc(5)`. Fields are counted after the last `)`: a command's name may hold anything,
/// brackets and spaces too.
fn field(stat: &str, place: usize) -> Option<u64> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    after_name.split_ascii_whitespace().nth(place - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_full_of_brackets_does_not_shift_the_fields() {
        let stat = "42 (a) R 9 (b)) S 1 42 42 0 -1 4194560 133 0 0 0 0 0 0 0 20 0 1 0 777 2510848 197 184467";
        assert_eq!(parse(stat), Some(StartTime(777)));
    }

    #[test]
    fn another_start_time_is_another_process() {
        let me = std::process::id();
        let start = start_time(me).unwrap();
        assert!(living(me, Some(start)).is_ok());
        assert!(matches!(living(me, Some(StartTime(start.0 + 1))), Err(CgroupError::ProcessGone { .. })));
    }
}
