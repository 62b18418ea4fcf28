//! `flowctl top -b`: the list as plain text, page after page, for a file or a pipe. Imports: siblings.

use super::app::App;
use super::draw::{self, Theme};
use super::input::{Input, Now};
use crate::api::client::Client;
use crate::api::wire::Status;
use crate::term::exit::Failure;
use crate::term::screen::Screen;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::time::{Duration, SystemTime};

/// Width of a page that nobody's terminal bounds.
const WIDE: u16 = 240;

/// Lines besides the jobs.
const FRAME: usize = 9;

/// Prints `pages` pages, or pages without end.
///
/// # Errors
/// The daemon does not answer; the first time, or whenever it says no.
pub async fn print(
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
        let width = screen.look().columns.map_or(WIDE, |columns| u16::try_from(columns).unwrap_or(WIDE));
        screen.print(&page(&mut app, width, now, ascii))?;
        left -= 1;
        if left > 0 {
            tokio::time::sleep(app.delay).await;
        }
    }
    Ok(())
}

/// The list with all its rows.
fn page(app: &mut App, width: u16, now: Now, ascii: bool) -> String {
    let gpus = app.status.as_ref().map_or(0, |status| status.node.gpus.len());
    // The header takes half of what is left for its GPUs.
    let height = u16::try_from(app.rows.len().max(FRAME) + FRAME + 2 * gpus).unwrap_or(u16::MAX);
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    draw::list_only(&mut buffer, app, now, Theme { color: false, ascii });
    format!("{}\n\n", draw::lines(&buffer).trim_end())
}
