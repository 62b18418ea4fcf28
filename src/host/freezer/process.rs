//! The guard process: reads plans as lines of JSON, writes reports, and thaws everything when its input ends.
//!
//! It needs no signal to detect the end of the daemon: the kernel closes its input, however the daemon ended.

use super::turns::{Plan, Turns};
use std::io::{self, BufRead, Write};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Instant;

/// Executes plans until the input ends.
///
/// # Errors
/// A line is not a plan, or the reports cannot be written. Everything is thawed in these cases too.
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
