//! What the threads of a job do beside those of others, and what it loses by that.

use crate::cost;
use api::wire::{Container, Threads};
use term::text::{self, clean};

/// What a job loses beside others, and the cure.
pub(super) fn waste(container: &Container, factor: f64) -> String {
    let lost = cost::lost_in_words(container.lost_cpu_s);
    let lost = lost.map_or_else(String::new, |lost| format!(", and {lost} are lost so far"));
    let unit = container.progress.as_ref().map_or("unit", |progress| progress.unit.as_str());
    format!(
        "beside other jobs each {} costs {factor:.1} times the CPU that it costs in its own turn: its threads wait for each other, spinning{lost}. \
         One job at a time gets nearly everything meanwhile; the cure is to start it with threads that sleep: `flowctl help threads`",
        clean(unit)
    )
}

/// What the threads do; `cores` are those that the job could use alone.
pub(super) fn used(threads: &Threads, cores: f64) -> String {
    let number = |number: f64| text::number_text((10.0 * number).round() / 10.0);
    let wanted = match threads.runnable {
        Some(runnable) => format!("{} want to run on {} cores", number(runnable), number(cores)),
        None => "unknown how many want to run".to_owned(),
    };
    let waited = threads.waiting_ratio.map(|part| format!(" and waited {} of that time", text::percent(part)));
    let (voluntary, forced) = (threads.voluntary_switches_per_s, threads.involuntary_switches_per_s);
    let switches = voluntary + forced;
    format!("{wanted}{}; {switches:.0} switches a second, {forced:.0} of them forced", waited.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_in_a_line_also_where_the_kernel_does_not_count_them() {
        let mut threads = Threads {
            runnable: Some(7.96),
            waiting_ratio: Some(0.61),
            voluntary_switches_per_s: 3900.4,
            involuntary_switches_per_s: 200.0,
        };
        let words = "8 want to run on 2 cores and waited 61% of that time; 4100 switches a second, 200 of them forced";
        assert_eq!(used(&threads, 2.0), words);
        (threads.runnable, threads.waiting_ratio) = (None, None);
        assert_eq!(used(&threads, 2.0), "unknown how many want to run; 4100 switches a second, 200 of them forced");
    }
}
