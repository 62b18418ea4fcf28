//! The command line of `flowcon-notify`, and `flowctl notify`, which runs that program: only it has a client for networks.

use super::config::load;
use super::service::log_to_journal_or_stderr;
use clap::{Args, CommandFactory, Parser, Subcommand};
use config::{ConfigError, Settings};
use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use term::exit::{self, Exit, Failure};
use term::message;
use term::text::clean;

const PROGRAM: &str = "flowcon-notify";

/// Sends messages about jobs to people: by a command, webhook, ntfy, Slack or mail
#[derive(Parser, Debug)]
#[command(name = PROGRAM, version, max_term_width = 100, after_help = AFTER_HELP)]
struct Arguments {
    /// The configuration file of flowcond, which has the targets; the folder with the same name and .d instead of .toml is read too
    #[arg(long, env = "FLOWCON_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Socket of flowcond
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Folder for messages that wait, and for what was told before
    #[arg(long, env = "STATE_DIRECTORY", default_value = "/var/lib/flowcon-notify", value_name = "DIR")]
    state_dir: PathBuf,
    /// Send a test message to this target, or to all, and exit
    #[arg(long, value_name = "TARGET", num_args = 0..=1)]
    test: Option<Option<String>>,
    /// Log level: error, warn, info, debug
    #[arg(long, env = "FLOWCON_LOG", default_value = "info", value_name = "LEVEL")]
    log: String,
}

const AFTER_HELP: &str = "\
`flowctl help notify` says how to configure it. Signals: HUP reloads the configuration, TERM and INT stop it; what waits is kept.";

/// Reads the configuration again.
type Reread = Box<dyn Fn() -> Result<Settings, Vec<ConfigError>>>;

/// Takes the name of a target, and what came of a test.
type Report<'a> = &'a mut dyn FnMut(&str, Result<(), String>);

/// The command line, for the manual.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs `flowcon-notify` with these arguments: `serve` sends until it is stopped, and `test` once.
pub fn run(
    arguments: impl IntoIterator<Item = OsString>,
    serve: fn(Settings, &Path, &Reread) -> Result<(), String>,
    test: fn(&Settings, Option<&str>, Report<'_>) -> Result<(), String>,
) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(rejection) => return exit::rejected(PROGRAM, &rejection),
    };
    let (file, socket) = (arguments.config, arguments.socket);
    let reread = move || -> Result<Settings, Vec<ConfigError>> {
        let settings = load(file.as_deref())?;
        Ok(Settings { socket: socket.clone().unwrap_or(settings.socket), ..settings })
    };
    let settings = match reread() {
        Ok(settings) => settings,
        Err(mistakes) => {
            mistakes.iter().for_each(|mistake| message::print_of(PROGRAM, mistake));
            return ExitCode::from(2);
        }
    };
    if let Some(target) = arguments.test {
        let mut failures = 0;
        let result = test(&settings, target.as_deref(), &mut |target, result| match result {
            Ok(()) => message::say(PROGRAM, format_args!("{target}: delivered")),
            Err(error) => {
                failures += 1;
                message::print_of(PROGRAM, format_args!("{target}: {}", clean(&error)));
            }
        });
        return ended(result, failures == 0);
    }
    if let Err(text) = log_to_journal_or_stderr(&arguments.log) {
        return ended(Err(text), false);
    }
    ended(serve(settings, &arguments.state_dir, &(Box::new(reread) as Reread)), true)
}

fn ended(result: Result<(), impl Display>, is_good: bool) -> ExitCode {
    match result {
        Ok(()) if is_good => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(text) => {
            message::print_of(PROGRAM, text);
            ExitCode::FAILURE
        }
    }
}

/// Arguments of `flowctl notify`.
#[derive(Args, Debug)]
pub(crate) struct NotifyArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Send a test message now, and say whether it was delivered
    Test {
        /// Name of the target [default: all]
        target: Option<String>,
        /// The configuration file of flowcond
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

/// Runs `flowctl notify`.
pub(crate) fn notify(args: &NotifyArgs) -> Result<ExitCode, Failure> {
    let Verb::Test { target, config } = &args.verb;
    let beside = std::env::current_exe().ok().map(|path| path.with_file_name(PROGRAM)).filter(|path| path.exists());
    let mut command = Command::new(beside.unwrap_or_else(|| PROGRAM.into()));
    command.args(config.iter().flat_map(|file| [OsString::from("--config"), file.into()]));
    command.arg("--test").args(target);
    let status = command.status().map_err(|error| {
        let next = "install it beside flowctl: the packages have it, except the image of flowcond";
        Failure::new(Exit::Failed, format!("cannot run {PROGRAM}: {error}"), next)
    })?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(Exit::Failed as u8)))
}
