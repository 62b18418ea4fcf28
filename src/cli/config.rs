//! `flowctl config`: shows the daemon's configuration, or checks a file before the daemon loads it.

use super::{block_on, own};
use api::client::Client;
use api::wire::Configuration;
use clap::{Args, Subcommand};
use config::{ConfigError, KEYS, Settings, Sources};
use serde_json::json;
use std::path::{Path, PathBuf};
use term::exit::{Exit, Failure};
use term::screen::Screen;
use term::table::{Cell, Column, table};
use term::text;

/// Default configuration file of the daemon.
const DEFAULT_FILE: &str = "/etc/flowcon/flowcond.toml";

/// Arguments of `flowctl config`.
#[derive(Args, Debug)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Check a configuration and name file, line and key of each mistake
    Check {
        /// The main file; the folder FILE.d beside it is read too
        #[arg(value_name = "FILE", env = "FLOWCON_CONFIG")]
        file: Option<PathBuf>,
        /// The same as FILE
        #[arg(long = "file", alias = "config", value_name = "FILE", conflicts_with = "file", hide = true)]
        by_option: Option<PathBuf>,
    },
    /// Show every setting of the running daemon, or of a configuration file
    Show {
        /// Show the settings from the defaults, this file with its folder FILE.d, and the environment, without a daemon
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// The same as FILE
        #[arg(long = "file", alias = "config", value_name = "FILE", conflicts_with = "file", hide = true)]
        by_option: Option<PathBuf>,
    },
    /// List every key with its default and description
    Keys,
}

/// Runs `flowctl config`.
pub(crate) fn run(args: &ConfigArgs, client: &Client, screen: &Screen) -> Result<(), Failure> {
    match &args.verb {
        Verb::Check { file, by_option } => check(by_option.as_deref().or(file.as_deref()), screen),
        Verb::Show { file, by_option } => show(by_option.as_deref().or(file.as_deref()), client, screen),
        Verb::Keys => keys(screen),
    }
}

/// Loads the settings as a daemon would.
pub(super) fn load(named: Option<&Path>) -> Result<Settings, Vec<ConfigError>> {
    config::load(&sources(named))
}

/// What a daemon of this user reads, but for its flags.
pub(super) fn sources(named: Option<&Path>) -> Sources {
    Sources {
        defaults: own::defaults(),
        file: named.unwrap_or(Path::new(DEFAULT_FILE)).to_owned(),
        must_exist: named.is_some(),
        // Names and values that are not UTF-8 cannot be settings.
        environment: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        flags: Vec::new(),
    }
}

fn check(named: Option<&Path>, screen: &Screen) -> Result<(), Failure> {
    let file = named.unwrap_or(Path::new(DEFAULT_FILE));
    match load(named) {
        Ok(_) if screen.is_json() => Ok(screen.print_json(&json!({ "ok": true, "mistakes": [] }))?),
        Ok(_) => Ok(screen.print(&text::clean(&no_mistakes(file))).and_then(|()| screen.print("\n"))?),
        Err(mistakes) => {
            if screen.is_json() {
                let words: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
                screen.print_json(&json!({ "ok": false, "mistakes": words }))?;
            }
            Err(invalid(&mistakes))
        }
    }
}

/// Says that a configuration has no mistakes, which is no news of a file that does not exist.
pub(super) fn no_mistakes(file: &Path) -> String {
    let found =
        if file.exists() { "no mistakes" } else { "does not exist; the defaults and the files in its folder apply" };
    format!("{}: {found}", file.display())
}

fn show(named: Option<&Path>, client: &Client, screen: &Screen) -> Result<(), Failure> {
    let shown = match named {
        Some(file) => config::shown(&load(Some(file)).map_err(|mistakes| invalid(&mistakes))?),
        None => {
            let reply = block_on(client.get::<Configuration>("/v1/config"))?;
            reply
                .map_err(|error| Failure {
                    next: "`flowctl config show /etc/flowcon/flowcond.toml` shows what a daemon would load".to_owned(),
                    ..Failure::from(error)
                })?
                .toml
        }
    };
    if !screen.is_json() {
        return Ok(screen.print(&text::clean_lines(shown.trim_start()))?);
    }
    let document: toml::Table = shown.parse().map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot print the settings as JSON: {error}"), "omit -o json")
    })?;
    Ok(screen.print_json(&document)?)
}

fn keys(screen: &Screen) -> Result<(), Failure> {
    let default = Settings::default();
    if screen.is_json() {
        let keys: Vec<_> = KEYS
            .iter()
            .map(|key| json!({ "key": key.name, "default": (key.show)(&default), "help": key.help }))
            .collect();
        return Ok(screen.print_json(&keys)?);
    }
    let columns = [Column::left("KEY"), Column::elastic("DEFAULT", 8), Column::elastic("DESCRIPTION", 20)];
    let rows: Vec<Vec<Cell>> = KEYS
        .iter()
        .map(|key| vec![Cell::plain(key.name), Cell::plain(&(key.show)(&default)), Cell::plain(key.help)])
        .collect();
    Ok(screen.print(&table(&columns, &rows, &screen.look()))?)
}

/// All mistakes, one per line.
fn invalid(mistakes: &[ConfigError]) -> Failure {
    let words: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    Failure::new(
        Exit::Usage,
        words.join("\n"),
        "fix the configuration; `flowctl config keys` lists every key with its default",
    )
}
