//! `flowctl doctor`: checks this machine for problems and says how to fix each.
//!
//! `gather` reads and changes nothing, `judge` is pure.

mod gather;
mod judge;
mod messages;
mod neighbours;

use api::client::Client;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use term::exit::{Exit, Failure};
use term::hint;
use term::screen::{Look, Screen, Tone};
use term::text::{self, clean};

/// Arguments of `flowctl doctor`.
#[derive(clap::Args, Debug)]
pub(crate) struct DoctorArgs {
    /// The daemon's state directory [default: the one of the running daemon, else /var/lib/flowcon]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// No problem.
    Ok,
    /// Works, with a limitation.
    Warn,
    /// Does not work.
    Fail,
}

/// A check with its result and, if needed, its fix.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) verdict: Verdict,
    pub(crate) found: String,
    #[serde(rename = "mend", skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
}

impl Check {
    pub(crate) fn ok(name: &'static str, found: impl Into<String>) -> Check {
        Check { name, verdict: Verdict::Ok, found: found.into(), fix: None }
    }

    pub(crate) fn warn(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Check {
        Check { name, verdict: Verdict::Warn, found: found.into(), fix: Some(fix.into()) }
    }

    pub(crate) fn fail(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Check {
        Check { name, verdict: Verdict::Fail, found: found.into(), fix: Some(fix.into()) }
    }
}

#[derive(Serialize)]
struct Report<'a> {
    checks: &'a [Check],
}

/// Runs and prints all checks; fails if one of them failed.
pub(crate) async fn doctor(client: &Client, args: &DoctorArgs, screen: &Screen) -> Result<Exit, Failure> {
    print(gather::checks(client, args.state_dir.as_deref()).await, screen)
}

/// Prints the checks; returns [`Exit::Failed`] if one of them failed.
pub(crate) fn print(mut checks: Vec<Check>, screen: &Screen) -> Result<Exit, Failure> {
    for check in &mut checks {
        check.found = hint::fitting(&check.found);
        check.fix = check.fix.as_deref().map(hint::fitting);
    }
    screen.show(&Report { checks: &checks }, &checks, |look| page(&checks, look))?;
    let failed = checks.iter().any(|check| check.verdict == Verdict::Fail);
    Ok(if failed { Exit::Failed } else { Exit::Ok })
}

/// Columns before the text.
const INDENT: usize = 19;

fn page(checks: &[Check], look: &Look) -> String {
    let mut page = String::new();
    for check in checks {
        let (tone, word) = match check.verdict {
            Verdict::Ok => (Tone::Good, "ok  "),
            Verdict::Warn => (Tone::Warn, "warn"),
            Verdict::Fail => (Tone::Bad, "FAIL"),
        };
        let found = look.wrapped(&clean(&check.found), INDENT);
        // Writing to a string cannot fail.
        let _ = writeln!(page, "{}  {:<13}{found}", look.paint(tone, word), check.name);
        if let Some(fix) = &check.fix {
            let fix = look.wrapped(&clean(fix), INDENT + 3);
            let _ = writeln!(page, "{}{} {fix}", " ".repeat(INDENT), look.paint(Tone::Accent, "→ "));
        }
    }
    let _ = writeln!(page, "\n{}", summary(checks));
    page
}

fn summary(checks: &[Check]) -> String {
    let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count();
    match (count(Verdict::Fail), count(Verdict::Warn)) {
        (0, 0) => "No problems found.".to_owned(),
        (0, warnings) => format!("No problems, {}.", text::count(warnings, "warning")),
        (failures, 0) => format!("{} to fix.", text::count(failures, "problem")),
        (failures, warnings) => {
            format!("{} to fix, {}.", text::count(failures, "problem"), text::count(warnings, "warning"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_shows_its_verdict_and_its_fix() {
        let checks = [
            Check::ok("cgroups", "version 2"),
            Check::warn("psi", "the kernel has no pressure data", "boot with psi=1"),
            Check::fail("daemon", "no daemon answers at /run/flowcon/flowcond.sock", "sudo systemctl start flowcond"),
        ];
        let shown = page(&checks, &Look { columns: Some(60), color: false });
        assert_eq!(
            shown,
            "\
ok    cgroups      version 2
warn  psi          the kernel has no pressure data
                   →  boot with psi=1
FAIL  daemon       no daemon answers at
                   /run/flowcon/flowcond.sock
                   →  sudo systemctl start flowcond

1 problem to fix, 1 warning.
"
        );
    }
}
