//! Pressure stall information of a cgroup and of the node.

use super::directory::read_generated;
use model::Pressure;

/// Parses the fraction of the last ten seconds in which some task waited: `some avg10=1.23 avg60=… total=…`, in percent.
pub(super) fn some_avg10(text: &str) -> Option<f64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let percent: f64 = some.split(' ').find_map(|field| field.strip_prefix("avg10="))?.parse().ok()?;
    Some((percent / 100.0).clamp(0.0, 1.0))
}

/// Reads the pressure of the whole node from `/proc/pressure`; `None` if the kernel does not provide it.
pub fn node_pressure() -> Pressure {
    let read = |name: &str| some_avg10(&read_generated(format!("/proc/pressure/{name}")).ok()?);
    Pressure { cpu: read("cpu"), memory: read("memory"), io: read("io") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentage_of_the_some_line_becomes_a_fraction() {
        let text =
            "some avg10=12.50 avg60=3.00 avg300=0.10 total=42\nfull avg10=99.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(some_avg10(text), Some(0.125));
        assert_eq!(some_avg10("full avg10=99.00\n"), None);
        assert_eq!(some_avg10("some avg10=nonsense\n"), None);
    }
}
