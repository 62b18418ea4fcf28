//! Output that is printed again and again.

use clap::Args;
use std::time::Duration;
use term::exit::{Exit, Failure};
use term::screen::Screen;
use term::{hint, message, text, when};

/// The option to refresh the output periodically.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Repeat {
    /// Refresh every SECONDS
    #[arg(long, short = 'w', num_args = 0..=1, require_equals = true, default_missing_value = "2", value_parser = seconds, value_name = "SECONDS")]
    pub watch: Option<Duration>,
}

/// Parses the seconds of an option: from 0.1 to a day.
///
/// # Errors
/// What is wrong with the text.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    when::duration_within(text, Duration::from_millis(100), Duration::from_secs(86_400))
}

/// Prints once, or every `every` until interrupted. A daemon that becomes unreachable in between is waited for.
pub(super) async fn repeat(
    every: Option<Duration>,
    screen: &Screen,
    render: impl AsyncFn() -> Result<String, Failure>,
) -> Result<(), Failure> {
    let Some(every) = every else { return Ok(screen.print(&render().await?)?) };
    let mut printed_once = false;
    loop {
        let page = match render().await {
            Ok(page) => page,
            Err(failure) if !printed_once || !is_transient(failure.exit) => return Err(failure),
            Err(failure) => {
                let next = text::clean(&hint::fitting(&failure.next));
                let page = format!("{}\nnext: {next}\n", text::clean(&failure.message));
                if screen.is_json() {
                    message::pass_on(&page);
                    tokio::time::sleep(every).await;
                    continue;
                }
                page
            }
        };
        printed_once = true;
        screen.print(&redrawn(&page, screen))?;
        tokio::time::sleep(every).await;
    }
}

fn is_transient(exit: Exit) -> bool {
    matches!(exit, Exit::Unreachable | Exit::Timeout | Exit::Refused)
}

/// On a terminal, redraws the page in place; elsewhere pages are appended.
fn redrawn(page: &str, screen: &Screen) -> String {
    if !screen.is_terminal() || screen.is_json() {
        return page.to_owned();
    }
    let lines = page.replace('\n', "\x1b[K\n");
    format!("\x1b[H{lines}\x1b[J")
}
