//! `flowctl run --threads`: how many threads the libraries of a command start.

use api::client::{Client, ClientError};
use api::wire::Status;
use std::path::Path;
use std::time::Duration;

/// How long the daemon may take to say how many jobs there are.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The number of threads that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Threads {
    /// As many as the cores that the job is to get.
    Auto,
    /// This many.
    Number(usize),
}

impl std::fmt::Display for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Threads::Auto => f.write_str("auto"),
            Threads::Number(number) => write!(f, "{number}"),
        }
    }
}

/// Parses `auto` or a number of threads.
pub(super) fn parse(text: &str) -> Result<Threads, String> {
    match text.parse() {
        Ok(number @ 1..=4096) => Ok(Threads::Number(number)),
        _ if text == "auto" => Ok(Threads::Auto),
        _ => Err("expected `auto` or a number from 1 to 4096".to_owned()),
    }
}

/// The number of threads of a command that is about to start, beside the jobs of the daemon at `socket`.
pub(super) async fn number(threads: Threads, socket: &Path) -> Result<usize, ClientError> {
    if let Threads::Number(number) = threads {
        return Ok(number);
    }
    let status: Status = Client::new(socket, TIMEOUT).get("/v1/status").await?;
    Ok(planned(status.node.cores, status.containers.len()))
}

/// The cores of a new job's first share, which is equal to those of the `others` others, rounded: a part of a core is still a thread.
fn planned(cores: f64, others: usize) -> usize {
    (cores / (others + 1) as f64).round().max(1.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_gets_a_thread_for_each_core_of_its_share() {
        assert_eq!([planned(16.0, 0), planned(16.0, 3), planned(2.0, 1), planned(2.0, 9)], [16, 4, 1, 1]);
        assert_eq!([planned(8.0, 2), planned(0.5, 0)], [3, 1]);
    }

    #[test]
    fn only_a_positive_number_or_auto_is_a_number_of_threads() {
        assert_eq!((parse("auto"), parse("3")), (Ok(Threads::Auto), Ok(Threads::Number(3))));
        for wrong in ["0", "-1", "1.5", "all", "", "99999"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
