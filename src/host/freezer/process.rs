//! The guard's own process: plans come as lines of JSON, reports go back, and when nothing can come any more everything is thawed.
//!
//! It takes no signal's word for an end but the kernel's: its input is closed when the daemon is gone, however that came. Imports: the
//! freezer's turns.

use super::turns::{Plan, Turns};
use std::io::{self, BufRead, Write};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Instant;

/// Carries plans out until the input ends.
///
/// # Errors
/// A line is no plan, or nobody reads the reports; everything is thawed then as well.
pub fn run(input: impl BufRead + Send + 'static, mut output: impl Write) -> io::Result<()> {
    let (sender, plans) = channel();
    let reading = move || {
        for line in input.lines() {
            let plan = line.and_then(|line| serde_json::from_str::<Plan>(&line).map_err(io::Error::from));
            let is_last = plan.is_err();
            if sender.send(plan).is_err() || is_last {
                return;
            }
        }
    };
    std::thread::Builder::new().name("plans".to_owned()).spawn(reading)?;
    let mut turns = Turns::new(Instant::now());
    loop {
        let wait = turns.turn(Instant::now());
        match plans.recv_timeout(wait) {
            Ok(plan) => {
                let report = turns.follow(plan?, Instant::now());
                serde_json::to_writer(&mut output, &report)?;
                output.write_all(b"\n")?;
                output.flush()?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}
