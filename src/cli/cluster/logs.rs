//! `flowctl cluster logs`: prints a job's output, which the agent of its node returns, and follows it over moves.

use super::{POLL_EVERY, fetch, jobs_named};
use api::client::{Client, ClientError, segment};
use api::wire::JobOutput;
use term::exit::Failure;
use term::screen::Screen;
use term::text;

/// Prints the last lines; with `follow`, also all later ones until the job has ended.
pub(super) async fn logs(client: &Client, job: &str, follow: bool, tail: u32, screen: &Screen) -> Result<(), Failure> {
    let mut last: Option<String> = None;
    loop {
        // Read before the output, so that nothing is missing of a job that has ended.
        let has_ended = !follow || jobs_named(&fetch(client).await?.jobs, job)?.iter().all(|job| job.is_over());
        let lines = match &last {
            Some(last) => format!("after={}&tail=10000", segment(last)),
            None => format!("tail={tail}"),
        };
        let path = format!("/v1/cluster/jobs/{}/logs?{lines}", segment(job));
        let output = match client.get::<JobOutput>(&path).await {
            // While it moves, it has no container, or the coordinator may be restarting.
            Err(error) if last.is_some() && !has_ended && is_passing(&error) => JobOutput { lines: Vec::new() },
            output => output?,
        };
        last = output.lines.last().map(|line| line.time.clone()).or(last);
        if !output.lines.is_empty() || !follow {
            screen.show(&output, &output.lines, |_| {
                output.lines.iter().map(|line| format!("{}\n", text::clean(&line.text))).collect()
            })?;
        }
        if has_ended {
            return Ok(());
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}

/// Whether the next request may succeed.
fn is_passing(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Unreachable { .. }
            | ClientError::Busy { .. }
            | ClientError::Timeout { .. }
            | ClientError::Refused { .. }
    )
}
