//! Bytes transferred on the network interfaces of a container with its own network namespace.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The open `/proc/PID/net/dev` of one network namespace, which exists at least as long as this.
#[derive(Debug)]
pub(super) struct Network {
    dev: File,
}

const LARGEST: usize = 64 * 1024;

impl Network {
    /// Returns `None` if the process shares the network namespace of the host.
    pub(super) fn of_process(pid: u32) -> Option<Network> {
        let namespace = |pid: &str| fs::read_link(Path::new("/proc").join(pid).join("ns/net"));
        let its = namespace(&pid.to_string()).ok()?;
        let shared = [namespace("self"), namespace("1")].into_iter().flatten().any(|host| host == its);
        if shared {
            return None;
        }
        Some(Network { dev: File::open(format!("/proc/{pid}/net/dev")).ok()? })
    }

    /// Returns the bytes received and sent so far on all interfaces except loopback.
    pub(super) fn bytes(&mut self) -> Option<model::Bytes> {
        let mut text = vec![0; 4096];
        let mut filled = 0;
        while filled < LARGEST {
            match self.dev.read_at(&mut text[filled..], filled as u64).ok()? {
                0 => break,
                read => filled += read,
            }
            text.resize(filled + 4096, 0);
        }
        Some(model::Bytes(sum(std::str::from_utf8(&text[..filled]).ok()?)))
    }
}

/// Sums lines `  eth0: RECEIVED packets errs drop fifo frame compressed multicast SENT …`.
fn sum(text: &str) -> u64 {
    const RECEIVED: usize = 0;
    const SENT: usize = 8;
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(interface, _)| interface.trim() != "lo")
        .map(|(_, counters)| {
            let counters: Vec<u64> = counters.split_ascii_whitespace().map(|c| c.parse().unwrap_or(0)).collect();
            let at = |index: usize| counters.get(index).copied().unwrap_or(0);
            at(RECEIVED).saturating_add(at(SENT))
        })
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_count_and_loopback_does_not() {
        let text = "Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0
  eth0:1000 9 0 0 0 0 0 0 234 5 0 0 0 0 0 0
";
        assert_eq!(sum(text), 1234);
    }
}
