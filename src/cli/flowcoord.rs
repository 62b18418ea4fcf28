//! The command line of `flowcoord`: runs the coordinator or an agent, checks the configuration.

use super::service::{block_on, forward_signals, log_to_journal_or_stderr};
use clap::{CommandFactory, Parser, Subcommand};
use coordinator::{Control, Settings};
use lab::cluster as demo;
use lab::train::{self, TrainArgs};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use term::exit::{self, Failure};
use term::message;
use term::screen::{ColorChoice, Format, Screen};
use tokio::sync::mpsc;

/// Hidden subcommand that runs flowcond: the nodes of the demo need it, and only this program is certain to be installed.
pub const FLOWCOND: &str = "__flowcond";

/// Default configuration file.
pub(super) const DEFAULT_FILE: &str = "/etc/flowcon/flowcoord.toml";

/// Places and moves training jobs on a Docker Swarm
#[derive(Parser, Debug)]
#[command(name = "flowcoord", version, max_term_width = 100, arg_required_else_help = true, after_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
    /// Configuration file
    #[arg(long, env = "FLOWCOORD_CONFIG", value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// The engine's socket, such as unix:///var/run/docker.sock
    #[arg(long, value_name = "ADDRESS", global = true)]
    engine: Option<String>,
    /// Socket of the API
    #[arg(long, value_name = "PATH", global = true)]
    socket: Option<PathBuf>,
    /// Socket of this node's flowcond
    #[arg(long, value_name = "PATH", global = true)]
    flowcond: Option<PathBuf>,
    /// Log level: error, warn, info, debug
    #[arg(long, env = "FLOWCON_LOG", default_value = "info", value_name = "LEVEL", global = true)]
    log: String,
}

const AFTER_HELP: &str = "\
Run `flowcoord run` on the managers of the Swarm and `flowcoord agent` on every node; `flowctl cluster status` shows the cluster.
Signals: HUP reloads the configuration, TERM and INT stop the program. Jobs keep running; the next coordinator continues from there.";

#[derive(Subcommand, Debug, Clone)]
enum Verb {
    /// Run the coordinator, on a manager of the Swarm; only the one on Swarm's leader acts
    Run,
    /// Run the agent of this node, which serves the managers
    Agent,
    /// Check the configuration for mistakes
    CheckConfig,
    /// Create a small Swarm on this machine, run real trainings with plain sharing, then governed, and compare; needs root and Docker
    Demo(demo::ClusterDemoArgs),
    /// Run one of the built-in trainings
    #[command(hide = true)]
    Train(TrainArgs),
}

/// The command line, for the manual.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs `flowcoord` with these arguments.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.get(1).is_some_and(|verb| verb == FLOWCOND) {
        return super::flowcond::run(arguments.into_iter().skip(1));
    }
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(rejection) => return exit::rejected("flowcoord", &rejection),
    };
    match &arguments.verb {
        Verb::Demo(args) => return ended(demo::run(args, &Screen::new(Format::Table, ColorChoice::Auto))),
        Verb::Train(args) => return ended(train::run(args).map_err(Failure::from)),
        Verb::Run | Verb::Agent | Verb::CheckConfig => {}
    }
    let settings = match settings(&arguments) {
        Ok(settings) => settings,
        Err(error) => {
            message::print_of("flowcoord", error);
            return ExitCode::from(2);
        }
    };
    if matches!(arguments.verb, Verb::CheckConfig) {
        message::say("flowcoord", "no mistakes");
        return ExitCode::SUCCESS;
    }
    if let Err(text) = log_to_journal_or_stderr(&arguments.log) {
        message::print_of("flowcoord", text);
        return ExitCode::from(2);
    }
    let ended = block_on(async move {
        let (control, requests) = mpsc::channel(4);
        tokio::spawn(forward_signals(control, Control::Reload, Control::Stop, "killing this program is safe"));
        let is_agent = matches!(arguments.verb, Verb::Agent);
        let reread = Box::new(move || self::settings(&arguments));
        let ended = match is_agent {
            true => coordinator::agent::run(settings, requests).await,
            false => coordinator::run(settings, reread, requests).await,
        };
        ended.map_err(|error| error.to_string())
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            message::print_of("flowcoord", text);
            ExitCode::FAILURE
        }
    }
}

fn ended(done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            message::print_of("flowcoord", format_args!("{}\nnext: {}", failure.message, failure.next));
            failure.exit.into()
        }
    }
}

fn settings(arguments: &Arguments) -> Result<Settings, coordinator::SettingsError> {
    let file = arguments.config.clone().unwrap_or_else(|| DEFAULT_FILE.into());
    let mut settings = Settings::load(&file, arguments.config.is_some())?;
    if let Some(socket) = &arguments.socket {
        settings.socket.clone_from(socket);
    }
    if let Some(flowcond) = &arguments.flowcond {
        settings.agent.flowcond.clone_from(flowcond);
    }
    settings.engine = arguments.engine.clone().or(settings.engine);
    Ok(settings)
}
