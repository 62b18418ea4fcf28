//! `flowctl doctor`: what this machine has, what it lacks, and how to mend each.
//!
//! `gather` looks and changes nothing, `judge` is pure. Imports: host, the API's client, screen.

mod gather;
mod judge;

use crate::api::client::Client;
use crate::term::exit::{Exit, Failure};
use crate::term::screen::{Format, Look, Screen, Tone};
use crate::term::text::{self, clean};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Arguments of `flowctl doctor`.
#[derive(clap::Args, Debug)]
pub struct DoctorArgs {
    /// Where the daemon keeps its journal [default: what the daemon says, else /var/lib/flowcon]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::cli) enum Verdict {
    /// As it should be.
    Ok,
    /// Works, with less than there could be.
    Warn,
    /// Does not work.
    Fail,
}

/// One thing looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::cli) struct Check {
    pub(in crate::cli) name: &'static str,
    pub(in crate::cli) verdict: Verdict,
    pub(in crate::cli) found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) mend: Option<String>,
}

impl Check {
    pub(in crate::cli) fn ok(name: &'static str, found: impl Into<String>) -> Check {
        Check { name, verdict: Verdict::Ok, found: found.into(), mend: None }
    }

    pub(in crate::cli) fn warn(name: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Check {
        Check { name, verdict: Verdict::Warn, found: found.into(), mend: Some(mend.into()) }
    }

    pub(in crate::cli) fn fail(name: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Check {
        Check { name, verdict: Verdict::Fail, found: found.into(), mend: Some(mend.into()) }
    }
}

#[derive(Serialize)]
struct Report<'a> {
    checks: &'a [Check],
}

/// Looks at everything and prints it; fails when a check did.
pub async fn doctor(client: &Client, args: &DoctorArgs, screen: &Screen) -> Result<Exit, Failure> {
    told(&gather::checks(client, args.state_dir.as_deref()).await, screen)
}

/// Prints what was found; fails when a check did.
pub(in crate::cli) fn told(checks: &[Check], screen: &Screen) -> Result<Exit, Failure> {
    match screen.format {
        Format::Json => screen.print_json(&Report { checks })?,
        Format::Jsonl => checks.iter().try_for_each(|check| screen.print_json(check))?,
        Format::Table | Format::Wide => screen.print(&page(checks, &screen.look()))?,
    }
    let failed = checks.iter().any(|check| check.verdict == Verdict::Fail);
    Ok(if failed { Exit::Failed } else { Exit::Ok })
}

/// Columns before the words.
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
        if let Some(mend) = &check.mend {
            let mend = look.wrapped(&clean(mend), INDENT + 3);
            let _ = writeln!(page, "{}{} {mend}", " ".repeat(INDENT), look.paint(Tone::Accent, "→ "));
        }
    }
    let _ = writeln!(page, "\n{}", summary(checks));
    page
}

fn summary(checks: &[Check]) -> String {
    let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count();
    match (count(Verdict::Fail), count(Verdict::Warn)) {
        (0, 0) => "Everything is as it should be.".to_owned(),
        (0, warnings) => format!("It works; {} could be better.", text::count(warnings, "thing")),
        (failures, 0) => format!("{} must be mended.", text::count(failures, "thing")),
        (failures, warnings) => {
            format!("{} must be mended, {warnings} could be better.", text::count(failures, "thing"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_tells_its_verdict_and_how_to_mend_it() {
        let checks = [
            Check::ok("cgroups", "version 2"),
            Check::warn("psi", "the kernel keeps no pressure", "boot with psi=1"),
            Check::fail("daemon", "no daemon answers at /run/flowcon/flowcond.sock", "sudo systemctl start flowcond"),
        ];
        let shown = page(&checks, &Look { columns: Some(60), color: false });
        assert_eq!(
            shown,
            "\
ok    cgroups      version 2
warn  psi          the kernel keeps no pressure
                   →  boot with psi=1
FAIL  daemon       no daemon answers at
                   /run/flowcon/flowcond.sock
                   →  sudo systemctl start flowcond

1 thing must be mended, 1 could be better.
"
        );
    }
}
