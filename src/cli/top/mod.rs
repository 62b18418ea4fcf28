//! `flowctl top`: a live view of the node and its jobs on a terminal, with the keys of `top` and `htop`.
//!
//! ```text
//! keys ─┐                       ┌─► draw   the screen as a function of the state
//! feed ─┴─► app (pure state) ───┴─► effects: refresh, command, quit …
//! ```
//!
//! Keys are handled even if the daemon hangs: the feed talks to it in the background and with a deadline.

mod app;
mod batch;
mod decisions;
pub(crate) mod draw;
mod feed;
mod input;
pub(crate) mod jobs;
mod keys;
mod live;
mod log_tail;
mod prompt;
mod share;
mod spark;
mod terminal;
#[cfg(test)]
mod testing;
mod trace;

use api::client::{Client, ClientError};
use api::wire::Policy;
use app::App;
use clap::Args;
use draw::Theme;
use jobs::{Order, SortKey};
use std::env;
use std::io::{self, IsTerminal};
use std::time::Duration;
use term::exit::{Exit, Failure};
use term::screen::{self, Screen};

/// Arguments of `flowctl top`.
#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// Update every SECONDS
    #[arg(long, short, default_value = "1", value_parser = super::seconds, value_name = "SECONDS")]
    delay: Duration,
    /// Print pages of plain text instead of taking over the terminal
    #[arg(long, short)]
    batch: bool,
    /// Exit after COUNT updates
    #[arg(long, short = 'n', value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,
    /// Sort the rows by KEY
    #[arg(long, short, value_enum, default_value_t, value_name = "KEY")]
    sort: SortKey,
    /// Reverse the sort order
    #[arg(long, short)]
    reverse: bool,
    /// Show only jobs with these words in their name, health, metric or reason
    #[arg(long, short, default_value = "", value_name = "TEXT", hide_default_value = true)]
    filter: String,
    /// Draw with ASCII characters only; the default if the locale is not UTF-8 and on the Linux console
    #[arg(long)]
    ascii: bool,
}

/// Shows the jobs until a key or signal quits.
///
/// # Errors
/// There is no terminal, or the daemon does not reply.
pub(crate) async fn top(client: &Client, args: &TopArgs, screen: &Screen) -> Result<(), Failure> {
    let order = Order { key: args.sort, reversed: args.reverse };
    let app = App::new(args.delay, order, &args.filter);
    let ascii = args.ascii || screen::is_ascii_only(|name| env::var(name).ok());
    if args.batch {
        return batch::print(client, app, args.iterations, screen, ascii).await;
    }
    check_terminal(screen)?;
    check_daemon(client).await?;
    live::watch(client.clone(), app, args.iterations, Theme { color: screen.look().color, ascii }).await
}

/// Checks that the standard output and input are a usable terminal.
fn check_terminal(screen: &Screen) -> Result<(), Failure> {
    let next = "`flowctl top -b -n 1` prints one page, `flowctl status --watch` page after page";
    if !screen.is_terminal() {
        return Err(Failure::new(Exit::Usage, "the output is not a terminal", next));
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::new(Exit::Usage, "the input is not a terminal", next));
    }
    let cannot = match env::var("TERM") {
        Ok(term) if term == "dumb" => "the terminal is too simple (TERM=dumb)",
        Ok(term) if !term.is_empty() => return Ok(()),
        _ => "the terminal is unknown (TERM is not set)",
    };
    Err(Failure::new(Exit::Usage, cannot, format!("{next}; or set TERM, such as TERM=xterm-256color")))
}

/// Checks the connection before the terminal is opened, so that a missing daemon or permission is reported as by every other command.
/// A slow daemon is waited for on the screen.
async fn check_daemon(client: &Client) -> Result<(), Failure> {
    match client.with_timeout(Duration::from_secs(2)).get::<Policy>("/v1/policy").await {
        Ok(_) | Err(ClientError::Timeout { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
