//! The command line of `flowcond`: run the daemon, restore what it changed, check its configuration.
//!
//! Imports: config, daemon, host's freezer, service.

use super::service::{block_on, log_to_journal_or_stderr};
use crate::config::{self, ConfigError, OnExit, Settings, Sources};
use crate::daemon::{self, Control, Restored};
use crate::host::freezer;
use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::io::{BufReader, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

const USUAL_FILE: &str = "/etc/flowcon/flowcond.toml";

/// Governs the training jobs of this machine: CPU follows learning
#[derive(Parser, Debug)]
#[command(name = "flowcond", version, max_term_width = 100, after_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Configuration file; the folder of the same name with .d for .toml is read too
    #[arg(long, env = "FLOWCON_CONFIG", value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// Where the API listens
    #[arg(long, value_name = "PATH", global = true)]
    socket: Option<PathBuf>,
    /// Where the journal of original limits is kept
    #[arg(long, value_name = "DIR", global = true)]
    state_dir: Option<PathBuf>,
    /// Any other setting, such as policy.interval=5s (`flowctl config keys` lists them)
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair, global = true)]
    set: Vec<(String, String)>,
    /// How much to log: error, warn, info, debug
    #[arg(long, env = "FLOWCON_LOG", default_value = "info", value_name = "LEVEL", global = true)]
    log: String,
}

const AFTER_HELP: &str = "\
Every setting can also be an environment variable: policy.interval is FLOWCON_POLICY_INTERVAL.
Signals: HUP reads the configuration again, TERM and INT restore the original limits and end.";

#[derive(Subcommand, Debug)]
enum Verb {
    /// Put every original limit back, without a running daemon
    Restore {
        /// Only where the setting on-exit asks for it; for a service that has ended
        #[arg(long)]
        as_configured: bool,
    },
    /// Say what is wrong with the configuration: file, line and key
    CheckConfig,
    /// Freeze and thaw as the daemon says, and thaw everything when it is gone; the daemon starts it
    #[command(hide = true)]
    Freezer,
}

/// The command line, for the manual.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs `flowcond` with these arguments.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(refusal) => {
            let _ = refusal.print(); // nobody reads: the exit code tells
            return if refusal.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
    };
    if let Some(Verb::Freezer) = arguments.verb {
        return finish(freezer::run(BufReader::new(stdin()), stdout()).map_err(|error| error.to_string()));
    }
    let settings = match config::load(&sources(&arguments)) {
        Ok(settings) => settings,
        Err(mistakes) => return refused(&mistakes),
    };
    match arguments.verb {
        None => govern(&arguments, settings),
        Some(Verb::Restore { as_configured: true }) if settings.on_exit == OnExit::Keep => {
            println!("on-exit = \"keep\": the limits stay for the next daemon");
            thaw(&settings)
        }
        Some(Verb::Restore { .. }) => restore(&settings),
        Some(Verb::CheckConfig) => {
            println!("{}: no mistakes", arguments.config.as_deref().unwrap_or(Path::new(USUAL_FILE)).display());
            ExitCode::SUCCESS
        }
        Some(Verb::Freezer) => ExitCode::SUCCESS, // it has run
    }
}

fn sources(arguments: &Arguments) -> Sources {
    let path = |key: &str, path: &Option<PathBuf>| {
        path.as_ref().map(|path| (key.to_owned(), path.to_string_lossy().into_owned(), format!("--{key}")))
    };
    let mut flags: Vec<(String, String, String)> =
        [path("socket", &arguments.socket), path("state-dir", &arguments.state_dir)].into_iter().flatten().collect();
    flags.extend(arguments.set.iter().map(|(key, value)| (key.clone(), value.clone(), "--set".to_owned())));
    Sources {
        file: arguments.config.clone().unwrap_or_else(|| USUAL_FILE.into()),
        must_exist: arguments.config.is_some(),
        // Names and values that are not UTF-8 cannot be settings.
        environment: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        flags,
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn refused(mistakes: &[ConfigError]) -> ExitCode {
    for mistake in mistakes {
        eprintln!("flowcond: {mistake}");
    }
    eprintln!("next: mend that; `flowctl config keys` lists every key with its default");
    ExitCode::from(2)
}

fn govern(arguments: &Arguments, settings: Settings) -> ExitCode {
    if let Err(text) = log_to_journal_or_stderr(&arguments.log) {
        eprintln!("flowcond: {text}");
        return ExitCode::from(2);
    }
    let value = |name: &str| config::KEYS.iter().find(|key| key.name == name).map(|key| (key.show)(&settings));
    let told = ["socket", "state-dir", "engine.address", "engine.label", "policy.name", "policy.interval"];
    let told: Vec<String> = told.iter().filter_map(|name| Some(format!("{name} = {}", value(name)?))).collect();
    tracing::info!("flowcond {} begins: {}", env!("CARGO_PKG_VERSION"), told.join(", "));
    let sources = sources(arguments);
    let reread = Box::new(move || config::load(&sources));
    let ended = block_on(async move {
        let (control, told) = mpsc::channel(4);
        tokio::spawn(signals(control));
        daemon::run(settings, reread, told, None).await.map_err(|error| error.to_string())
    });
    finish(ended)
}

fn restore(settings: &Settings) -> ExitCode {
    let restored = block_on(async { daemon::restore(settings).await.map_err(|error| error.to_string()) });
    finish(restored.and_then(|restored| report(&restored)))
}

/// Nothing may stay frozen, whatever happens to the limits.
fn thaw(settings: &Settings) -> ExitCode {
    let failed = block_on(async { daemon::thaw(settings).await.map_err(|error| error.to_string()) });
    finish(failed.and_then(|failed| if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }))
}

fn report(restored: &Restored) -> Result<(), String> {
    let Restored { back, nothing_to_do, left, failed, .. } = restored;
    for name in back {
        println!("{name}: original limits are back");
    }
    for text in left {
        println!("{text}: left alone");
    }
    println!("{} restored, {nothing_to_do} had nothing to restore, {} failed", back.len(), failed.len());
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

fn finish(ended: Result<(), String>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("flowcond: {text}");
            ExitCode::FAILURE
        }
    }
}

async fn signals(control: mpsc::Sender<Control>) {
    let caught = (signal(SignalKind::hangup()), signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    let (Ok(mut hangup), Ok(mut terminate), Ok(mut interrupt)) = caught else {
        tracing::error!("signals cannot be caught; use `flowctl reload` and `flowcond restore`");
        return std::future::pending().await; // keeps the channel open: its end would stop the daemon
    };
    loop {
        let told = tokio::select! {
            _ = hangup.recv() => Control::Reload,
            _ = terminate.recv() => Control::Stop,
            _ = interrupt.recv() => Control::Stop,
        };
        if control.send(told).await.is_err() {
            return;
        }
    }
}
