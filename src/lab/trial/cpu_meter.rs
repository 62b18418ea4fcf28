//! CPU time of a running job, read from its cgroup often enough that little is missed at its end.
//!
//! The governor's status has it only as of the last decision, which may be seconds before a job's end.

use super::backend::Whereabouts;
use model::Usage;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// Time between two readings: at most this much of a job's CPU time is missed.
const READ_EVERY: Duration = Duration::from_millis(100);

/// Puts the CPU time that a job has used so far into `used`, for as long as the future is polled. It is left as it is before the job is in
/// its cgroup, after its end, or if the cgroup is not visible here.
pub(super) async fn read_cpu(job: Option<Whereabouts>, used: &watch::Sender<Option<Duration>>) -> Infallible {
    let (mut found, mut usage) = (None, Usage::default());
    let Some(job) = job else { return std::future::pending().await };
    // Keeps its phase, so that equal periods contain equally many readings.
    let mut time = tokio::time::interval(READ_EVERY);
    time.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        time.tick().await;
        if found.is_none() {
            found = job.cgroup().await;
        }
        if let Some(cgroup) = &mut found {
            cgroup.glance(&mut usage);
        }
        if let Some(cpu) = usage.cpu {
            used.send_replace(Some(Duration::from_micros(cpu.0)));
        }
    }
}
