//! The command line of `flowcond`: runs the daemon, restores limits, checks the configuration.

use super::config::{self as files, no_mistakes};
use super::service::{block_on, forward_signals, log_to_journal_or_stderr};
use clap::{Args, CommandFactory, Parser, Subcommand};
use config::{ConfigError, OnExit, Settings, Sources};
use daemon::{Control, Restored, Undone};
use node::users;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{BufReader, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use store::StoreError;
use term::text::{clean, clean_lines};
use term::{exit, message};
use tokio::sync::mpsc;

const STATE_DIR: &str = "state-dir";

/// Daemon that governs the training jobs of this machine: CPU follows learning
#[derive(Parser, Debug)]
#[command(name = "flowcond", version, max_term_width = 100, after_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Configuration file; the folder with the same name and .d instead of .toml is read too
    #[arg(long, env = "FLOWCON_CONFIG", value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// Socket of the API
    #[arg(long, value_name = "PATH", global = true)]
    socket: Option<PathBuf>,
    /// State directory: the journal of original limits, and the history
    #[arg(long, value_name = "DIR", global = true)]
    state_dir: Option<PathBuf>,
    /// Any other setting, such as policy.interval=5s; `flowctl config keys` lists all keys
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair, global = true)]
    set: Vec<(String, String)>,
    /// Log level: error, warn, info, debug
    #[arg(long, env = "FLOWCON_LOG", default_value = "info", value_name = "LEVEL", global = true)]
    log: String,
}

const AFTER_HELP: &str = "\
Every setting can also be an environment variable: policy.interval is FLOWCON_POLICY_INTERVAL.
Signals: HUP reloads the configuration, TERM and INT restore the original limits and exit.";

#[derive(Subcommand, Debug)]
enum Verb {
    /// Restore all original limits, without a running daemon; fails if there is no journal of them
    Restore(RestoreArgs),
    /// Check the configuration and name file, line and key of each mistake
    CheckConfig,
    /// Freeze and thaw on request of the daemon, and thaw everything when it is gone; started by the daemon
    #[command(hide = true)]
    Freezer,
}

#[derive(Args, Clone, Copy, Debug)]
struct RestoreArgs {
    /// Only if the setting on-exit says so, and if there is a journal; for the unit, after the daemon has ended
    #[arg(long)]
    as_configured: bool,
    /// Only if there is a journal, that is, if flowcond has ever run; for scripts that remove flowcon
    #[arg(long)]
    if_governed: bool,
    /// Also forget containers that do not run and whose engine no longer exists or cannot be reached
    #[arg(long, conflicts_with = "as_configured")]
    forget_missing: bool,
}

/// The command line, for the manual.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs `flowcond` with these arguments.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(rejection) => return exit::rejected("flowcond", &rejection),
    };
    if let Some(Verb::Freezer) = arguments.verb {
        return finish(freezer::run(BufReader::new(stdin()), stdout()).map_err(|error| error.to_string()));
    }
    let sources = sources(&arguments);
    let (settings, mistakes) = config::load_valid(&sources);
    if !mistakes.is_empty() {
        let Some(Verb::Restore(args)) = arguments.verb else { return invalid(&mistakes) };
        // A mistake must not keep the jobs from their original limits.
        mistakes.iter().for_each(warn);
        warn("the limits are restored nevertheless, with the defaults of these settings");
        if sources.may_hide(STATE_DIR, &mistakes) {
            let path = settings.state_dir.display();
            warn(format_args!("the state directory may not be {path}; next: name it with --state-dir"));
            restore(&settings, args);
            return ExitCode::FAILURE;
        }
    }
    match arguments.verb {
        None => govern(sources, &arguments.log, settings),
        Some(Verb::Restore(RestoreArgs { as_configured: true, .. })) if settings.on_exit == OnExit::Keep => {
            say("on-exit = \"keep\": the limits are kept for the next daemon");
            thaw(&settings)
        }
        Some(Verb::Restore(args)) => restore(&settings, args),
        Some(Verb::CheckConfig) => {
            unknown_names(&settings).iter().for_each(|unknown| warn(format_args!("warning: {unknown}")));
            say(no_mistakes(&sources.file));
            ExitCode::SUCCESS
        }
        Some(Verb::Freezer) => ExitCode::SUCCESS, // handled above
    }
}

fn sources(arguments: &Arguments) -> Sources {
    let path = |key: &str, path: &Option<PathBuf>| {
        path.as_ref().map(|path| (key.to_owned(), path.to_string_lossy().into_owned(), format!("--{key}")))
    };
    let mut flags: Vec<(String, String, String)> =
        [path("socket", &arguments.socket), path(STATE_DIR, &arguments.state_dir)].into_iter().flatten().collect();
    flags.extend(arguments.set.iter().map(|(key, value)| (key.clone(), value.clone(), "--set".to_owned())));
    Sources { flags, ..files::sources(arguments.config.as_deref()) }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn invalid(mistakes: &[ConfigError]) -> ExitCode {
    mistakes.iter().for_each(warn);
    message::pass_on("next: fix the configuration; `flowctl config keys` lists every key with its default\n");
    ExitCode::from(2)
}

/// Configured users and the group that do not exist on this machine; the daemon ignores them.
fn unknown_names(settings: &Settings) -> Vec<String> {
    let admins = settings.admins.iter().filter_map(|user| users::uid_of(user).err());
    let group = settings.group.iter().filter(|_| settings.group != Settings::default().group);
    let group = group.filter_map(|group| users::gid_of(group).err());
    admins.chain(group).map(|unknown| unknown.to_string()).collect()
}

fn govern(sources: Sources, log: &str, settings: Settings) -> ExitCode {
    if let Err(text) = log_to_journal_or_stderr(log) {
        warn(text);
        return ExitCode::from(2);
    }
    let value = |name: &str| config::KEYS.iter().find(|key| key.name == name).map(|key| (key.show)(&settings));
    let logged = ["socket", STATE_DIR, "engine.address", "engine.label", "policy.name", "policy.interval"];
    let logged: Vec<String> = logged.iter().filter_map(|name| Some(format!("{name} = {}", value(name)?))).collect();
    tracing::info!("flowcond {} starts: {}", env!("CARGO_PKG_VERSION"), logged.join(", "));
    if !rustix::process::geteuid().is_root() {
        tracing::warn!(
            "not root: it sees and governs only what this user may, such as commands of `flowctl run` in the user's session"
        );
    }
    let reread = Box::new(move || config::load(&sources));
    let ended = block_on(async move {
        let (control, requests) = mpsc::channel(4);
        tokio::spawn(forward_signals(
            control,
            Control::Reload,
            Control::Stop,
            "use `flowctl reload` and `flowcond restore` instead",
        ));
        daemon::run(settings, reread, requests, None).await.map_err(|error| error.to_string())
    });
    finish(ended)
}

fn restore(settings: &Settings, args: RestoreArgs) -> ExitCode {
    let undone =
        block_on(async { daemon::restore(settings, args.forget_missing).await.map_err(|error| next_after(&error)) });
    finish(undone.and_then(|undone| report(undone, args.as_configured || args.if_governed)))
}

/// The error with the next step of a restore, which is not that of a daemon's start.
fn next_after(error: &StoreError) -> String {
    match error {
        StoreError::InUse { path, holder } => {
            format!(
                "state directory {}: in use by {holder}; `flowctl restore` restores through that daemon",
                path.display()
            )
        }
        other => other.to_string(),
    }
}

/// Thaws all frozen jobs, even if the limits are kept.
fn thaw(settings: &Settings) -> ExitCode {
    let failed = block_on(async { daemon::thaw(settings).await.map_err(|error| error.to_string()) });
    finish(failed.and_then(|failed| if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }))
}

/// Prints what was done. `may_lack`: a journal that does not exist is no failure.
fn report(undone: Undone, may_lack: bool) -> Result<(), String> {
    let Undone { journal, restored, unknown } = undone;
    let mut failed = unknown.unwrap_or_else(|error| {
        warn(format_args!("not checked whether other containers have limits of flowcon: {}", clean(&error)));
        Vec::new()
    });
    let journal = journal.display();
    match restored {
        Some(restored) => {
            let Restored { back, nothing_to_do, left, missing, failed: not_restored, .. } = restored;
            back.iter().for_each(|name| say(format_args!("{}: original limits restored", clean(name))));
            left.iter().for_each(|text| say(format_args!("{}: left alone", clean(text))));
            missing.iter().for_each(|name| say(format_args!("{}: forgotten, its engine cannot be reached", clean(name))));
            failed.splice(0..0, not_restored);
            say(format_args!("{} restored, {nothing_to_do} had nothing to restore, {} failed", back.len(), failed.len()));
            say(format_args!("the journal is {journal}"));
        }
        None if may_lack && failed.is_empty() => {
            say(format_args!("nothing to restore: no journal {journal}, so flowcond has not run with this state directory"));
        }
        None => failed.push(format!(
            "nothing was restored: there is no journal {journal}\nnext: if flowcond used another state directory, name it with \
             --state-dir; if it has never run, there is nothing to restore"
        )),
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// Prints a line. An output that is closed or full ends no restore, and is not ignored.
fn say(text: impl Display) {
    message::say("flowcond", text);
}

fn warn(text: impl Display) {
    message::print_of("flowcond", text);
}

fn finish(ended: Result<(), String>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            warn(clean_lines(&text));
            if !rustix::process::geteuid().is_root() {
                message::pass_on("next: run flowcond as root (`sudo flowcond`), which changing limits needs\n");
            }
            ExitCode::FAILURE
        }
    }
}
