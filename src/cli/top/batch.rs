//! `flowctl top -b`: prints the list as plain text, one page per update, for a file or a pipe.

use super::app::App;
use super::draw::{self, Theme};
use super::input::{Input, Now};
use api::client::Client;
use api::wire::Status;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::time::{Duration, SystemTime};
use term::exit::Failure;
use term::screen::Screen;

/// Width of a page if the output is not a terminal.
const DEFAULT_WIDTH: u16 = 240;

/// Lines in addition to the jobs.
const FRAME: usize = 9;

/// Prints `pages` pages, or without end if `None`.
///
/// # Errors
/// The daemon does not reply or reports an error.
pub(super) async fn print(
    client: &Client,
    mut app: App,
    pages: Option<u64>,
    screen: &Screen,
    ascii: bool,
) -> Result<(), Failure> {
    let mut left = pages.unwrap_or(u64::MAX);
    while left > 0 {
        let status: Status = client.get("/v1/status").await?;
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = Now { up: Duration::ZERO, unix_ms: u64::try_from(unix.as_millis()).unwrap_or(u64::MAX) };
        app.take(Input::Status(Box::new(status)), now);
        let width =
            screen.look().columns.map_or(DEFAULT_WIDTH, |columns| u16::try_from(columns).unwrap_or(DEFAULT_WIDTH));
        screen.print(&page(&mut app, width, now, ascii))?;
        left -= 1;
        if left > 0 {
            tokio::time::sleep(app.delay).await;
        }
    }
    Ok(())
}

/// Renders the list with all its rows.
fn page(app: &mut App, width: u16, now: Now, ascii: bool) -> String {
    let gpus = app.status.as_ref().map_or(0, |status| status.node.gpus.len());
    // The header uses half of the remaining lines for GPUs.
    let height = u16::try_from(app.rows.len().max(FRAME) + FRAME + 2 * gpus).unwrap_or(u16::MAX);
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    draw::list_only(&mut buffer, app, now, Theme { color: false, ascii });
    format!("{}\n\n", draw::lines(&buffer).trim_end())
}
