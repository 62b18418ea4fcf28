//! Metrics of the daemon itself: its API and its process.

use super::family::{Kind, family, single};
use crate::server::shared::Api;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt::{self, Error};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) struct OwnMetrics(pub(super) Arc<Api>);

impl fmt::Debug for OwnMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnMetrics")
    }
}

impl Collector for OwnMetrics {
    fn encode(&self, mut out: DescriptorEncoder) -> Result<(), Error> {
        let counters = &self.0.counters;
        let answers = [("success", &counters.succeeded), ("refusal", &counters.refused), ("failure", &counters.failed)]
            .map(|(class, count)| ([("answer", class.to_owned())], count.load(Ordering::Relaxed) as f64));
        family(&mut out, Kind::Counter, "flowcon_api_requests", "Requests by the class of their answer", answers)?;
        single(
            &mut out,
            Kind::Counter,
            "flowcon_api_connections_refused",
            "Connections refused: no access right, or too many connections",
            Some(counters.connections_refused.load(Ordering::Relaxed) as f64),
        )?;
        let open = self.0.streams.taken();
        single(
            &mut out,
            Kind::Gauge,
            "flowcon_api_event_streams",
            "Open event streams and recordings",
            Some(open as f64),
        )?;
        process(&mut out)
    }
}

/// Encodes the standard process metrics of Prometheus client libraries.
fn process(out: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field, the command in parentheses, may contain blanks; field 3 is the first after it.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let cpu = field(14).zip(field(15)).map(|(user, system)| (user + system) / ticks);
    let resident = field(24).map(|pages| pages * rustix::param::page_size() as f64);
    let files = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as f64);
    single(out, Kind::Counter, "process_cpu_seconds", "CPU time of the daemon", cpu)?;
    single(out, Kind::Gauge, "process_resident_memory_bytes", "Resident memory of the daemon", resident)?;
    single(out, Kind::Gauge, "process_open_fds", "Open file descriptors of the daemon", files)
}
