//! `flowctl man`: shows a page of the manual, which need not be installed: with groff if it is there, otherwise by `roff`.

use super::manual::{self, Page};
use super::roff;
use clap::Command;
use std::env;
use std::io::{self, Write};
use std::process::{self, Stdio};
use term::exit::{Exit, Failure};
use term::screen::Screen;
use term::text;

/// Columns of a page, at most: longer lines are hard to read.
const COLUMNS: usize = 100;

/// Show a page of the manual: of a program, a command or a topic, or flowcond.toml
#[derive(clap::Args, Debug)]
pub(crate) struct ManArgs {
    /// Name of the page, or its end: flowctl-run or run, flowcon-labels or labels, flowcond.toml
    #[arg(default_value = "flowctl", value_name = "PAGE")]
    page: String,
}

/// Shows the page; on a terminal, in the pager of the user.
pub(crate) fn run(args: &ManArgs, flowctl: Command, flowsim: Command, screen: &Screen) -> Result<(), Failure> {
    let pages = manual::pages(super::programs(flowctl, flowsim))?;
    let page = find(&pages, &args.page).ok_or_else(|| {
        let message = format!("no page of the manual is called `{}`", text::clean(&args.page));
        let names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).filter(|name| !is_command(name)).collect();
        Failure::new(Exit::Usage, message, format!("pages: {}, and flowctl-COMMAND", names.join(", ")))
    })?;
    let columns = screen.look().columns.unwrap_or(COLUMNS).min(COLUMNS);
    let shown = with_groff(&page.roff, columns, screen.is_terminal())
        .unwrap_or_else(|| roff::text(&String::from_utf8_lossy(&page.roff), columns));
    if screen.is_terminal() && page_through(&shown) {
        return Ok(());
    }
    Ok(screen.print(&shown)?)
}

/// The page with this name, with or without its section, or whose name ends so.
fn find<'a>(pages: &'a [Page], name: &str) -> Option<&'a Page> {
    let candidates = [name.to_owned(), format!("flowctl-{name}"), format!("flowcon-{name}")];
    let is_it = |page: &&Page, wanted: &str| page.name == wanted || format!("{}.{}", page.name, page.section) == wanted;
    candidates.iter().find_map(|wanted| pages.iter().find(|page| is_it(page, wanted)))
}

fn is_command(name: &str) -> bool {
    ["flowctl-", "flowsim-", "flowcond-", "flowcoord-"].iter().any(|program| name.starts_with(program))
}

/// Formats the page with groff; `None` if it is not installed or fails.
fn with_groff(page: &[u8], columns: usize, is_terminal: bool) -> Option<String> {
    let mut groff = process::Command::new("groff");
    groff.args(["-man", "-Kutf8", "-Tutf8", "-rHY=0", &format!("-rLL={columns}n")]);
    if !is_terminal {
        groff.args(["-P-c", "-P-b", "-P-o", "-P-u"]); // no bold and underlined letters
    }
    let mut child = groff.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let mut input = child.stdin.take()?;
    let page = page.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&page));
    let output = child.wait_with_output().ok()?;
    let is_whole = writer.join().ok()?.is_ok() && output.status.success() && !output.stdout.is_empty();
    if is_whole { String::from_utf8(output.stdout).ok() } else { None }
}

/// Shows text in the pager; returns whether that worked.
fn page_through(text: &str) -> bool {
    let named = |name| env::var(name).ok().filter(|pager| !pager.trim().is_empty());
    let pager = named("MANPAGER").or_else(|| named("PAGER")).unwrap_or_else(|| "less -R".to_owned());
    let mut shell = process::Command::new("sh");
    if env::var_os("LESS").is_none() {
        shell.env("LESS", "FRX");
    }
    // As in `man`, the variable may have options. A pager that is missing ends at once, with 127.
    let Ok(mut child) = shell.arg("-c").arg(&pager).stdin(Stdio::piped()).spawn() else { return false };
    if let Some(mut input) = child.stdin.take() {
        // The user may leave the pager before its end.
        let _: io::Result<()> = input.write_all(text.as_bytes());
    }
    child.wait().is_ok_and(|status| status.code() != Some(127))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Page> {
        manual::pages(super::super::programs(crate::usage::command(), Command::new("flowsim"))).expect("pages")
    }

    #[test]
    fn a_page_is_found_by_its_name_or_the_end_of_it() {
        let pages = all();
        let found = |name: &str| find(&pages, name).map(|page| page.name.as_str());
        for (name, page) in [
            ("flowctl", "flowctl"),
            ("run", "flowctl-run"),
            ("config-check", "flowctl-config-check"),
            ("labels", "flowcon-labels"),
            ("flowcond.toml.5", "flowcond.toml"),
            ("policy", "flowctl-policy"),
            ("flowcon-policy", "flowcon-policy"),
        ] {
            assert_eq!(found(name), Some(page), "{name}");
        }
        assert_eq!(found("ls"), None);
    }

    /// Which words the page of groff has, this one has too; their lines may break elsewhere.
    #[test]
    fn without_groff_every_page_has_the_same_words() {
        let words = |text: &str| -> Vec<String> {
            let joined = text.replace("\u{2010}\n", "-").replace(['\u{2010}', '\u{2212}'], "-");
            let joined = joined.replace('\u{b7}', "\u{2022}").replace('\u{2018}', "`").replace('\u{2019}', "'");
            let joined = joined.replace('\u{2c6}', "^").replace('\u{2dc}', "~");
            joined.split_whitespace().map(str::to_owned).collect()
        };
        for page in all() {
            let own = roff::text(&String::from_utf8_lossy(&page.roff), 100);
            assert!(own.lines().all(|line| text::width(line) <= 140), "{}:\n{own}", page.name);
            assert!(!own.contains("\\f") && !own.contains("\n."), "{}:\n{own}", page.name);
            let Some(groff) = with_groff(&page.roff, 100, false) else { continue };
            // The first and the last line are groff's header and footer.
            let body = groff.trim().split_once('\n').and_then(|(_, rest)| rest.rsplit_once('\n'));
            let (own, groff) = (words(&own), words(body.expect("several lines").0));
            let missing: Vec<&String> = own.iter().filter(|word| !groff.contains(word)).collect();
            assert!(missing.len() * 20 <= own.len(), "{}: {missing:?}", page.name);
            let missing: Vec<&String> = groff.iter().filter(|word| !own.contains(word)).collect();
            assert!(missing.len() * 20 <= groff.len(), "{}: {missing:?}", page.name);
        }
    }
}
