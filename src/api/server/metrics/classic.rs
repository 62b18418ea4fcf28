//! Converts OpenMetrics to Prometheus' older text format, for `promtool`, the textfile collector, and use with `curl`.
//!
//! The formats differ in the position of a counter's `_total` and in the final `# EOF`. Pure.

/// Converts the metrics to text format 0.0.4.
pub(super) fn classic(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = None;
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let total = if kind == "counter" { "_total" } else { "" };
            if let Some((_, words)) = help.take() {
                text.push_str(&format!("# HELP {name}{total} {words}\n"));
            }
            text.push_str(&format!("# TYPE {name}{total} {kind}\n"));
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::classic;

    #[test]
    fn a_counter_is_described_with_the_name_of_its_samples() {
        let open =
            "# HELP a Made.\n# TYPE a counter\na_total 3\n# HELP b Now.\n# TYPE b gauge\nb{x=\"# y\"} 1\n# EOF\n";
        let expected =
            "# HELP a_total Made.\n# TYPE a_total counter\na_total 3\n# HELP b Now.\n# TYPE b gauge\nb{x=\"# y\"} 1\n";
        assert_eq!(classic(open), expected);
    }
}
