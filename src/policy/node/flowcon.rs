//! Algorithm 1 of FlowCon: lists and limits of one node's containers from their growth efficiency.
//!
//! ## Terms
//!
//! - *Growth* G: evaluation gained per node-CPU-second, see [`super::growth`]. The latest measurement is used until the next one.
//! - *Limit* L in (0, 1]: what the paper sets. Here it is soft: weights are set so that it holds
//!   while all want CPU ([`super::allocation`]).
//! - *Unmeasured*: no growth yet, because fewer than two intervals had evaluations. L = 1, free competition.
//! - *Silent*: measured before, but not in this interval. List and limit are kept; its latest growth still counts in sums.
//!
//! ## The rule
//!
//! ```text
//! every running container in Completing   L = 1 for all, and the interval doubles
//! New                                     L = G / ΣG
//! Completing                              L = max(G / ΣG, 1 / (β·n))
//! Watching                                L unchanged
//! ```
//!
//! ## Cases that the listing leaves open
//!
//! - Growth below zero (a rising loss) counts as zero in sums and as below the threshold in lists.
//! - While some container is unmeasured, ΣG is not the growth of the whole node, and a Completing container's part of it has no meaning. So
//!   its limit is its floor: VAE at 0.25 beside a MNIST that has just started (paper, section 5.3).
//! - n counts the running containers; a frozen one keeps list and limit and is left out.
//! - A tick that a start or an end triggered early uses the latest measured growths.

use super::decision::Decision;
use super::flowcon_2019;
use super::growth::Measurement;
use super::lists;
use super::memory::MemoryRole;
use model::{List, Millis, PolicyName, PolicySettings, Reason, Share};
use serde::{Deserialize, Serialize};

/// Parameters of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    /// [α] Per node-CPU-second.
    pub(super) growth_threshold: f64,
    /// [β]
    pub(super) share_floor: f64,
}

impl Parameters {
    /// Returns the parameters for so many running containers.
    pub(super) fn of(settings: &PolicySettings, running: usize) -> Parameters {
        let share_floor = match settings.policy {
            PolicyName::Flowcon2019 => flowcon_2019::share_floor(running),
            _ => settings.flowcon.share_floor,
        };
        Parameters { growth_threshold: settings.growth_threshold(), share_floor }
    }
}

/// State of a container in Algorithm 1.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Standing {
    pub(super) list: List,
    /// L
    pub(super) limit: f64,
    /// The latest measured G; `None` = unmeasured.
    pub(super) growth: Option<f64>,
}

impl Default for Standing {
    fn default() -> Self {
        Standing { list: List::New, limit: 1.0, growth: None }
    }
}

/// One container's input to Algorithm 1.
pub(super) struct Entry<'a> {
    pub(super) standing: &'a mut Standing,
    pub(super) measurement: Measurement,
    pub(super) running: bool,
}

/// Moves every container to its list and sets its limit. Returns whether all running containers are in Completing.
pub(super) fn run(entries: &mut [Entry<'_>], parameters: &Parameters) -> bool {
    for entry in entries.iter_mut().filter(|entry| entry.running) {
        if let Some(growth) = measured(entry.measurement) {
            entry.standing.growth = Some(growth);
            entry.standing.list = lists::after(entry.standing.list, growth, parameters.growth_threshold);
        }
    }
    let all_completing = all_completing(entries);
    if all_completing {
        entries.iter_mut().filter(|entry| entry.running).for_each(|entry| entry.standing.limit = 1.0);
    } else {
        set_limits(entries, parameters.share_floor);
    }
    all_completing
}

/// Returns the decisions with their reasons. `interval` is the next interval.
pub(super) fn decisions(
    entries: &[Entry<'_>],
    all_completing: bool,
    interval: Millis,
    parameters: &Parameters,
) -> Vec<Decision> {
    let floor = floor(parameters.share_floor, entries.iter().filter(|entry| entry.running).count());
    entries
        .iter()
        .map(|entry| Decision {
            list: entry.standing.list,
            limit: entry.standing.limit,
            role: role(entry.standing),
            gpus: Vec::new(),
            reason: reason(entry, all_completing, interval, floor),
        })
        .collect()
}

fn role(standing: &Standing) -> MemoryRole {
    match standing.list {
        List::New => MemoryRole::Protect,
        List::Watching => MemoryRole::Leave,
        List::Completing => MemoryRole::Squeeze,
    }
}

fn reason(entry: &Entry<'_>, all_completing: bool, interval: Millis, floor: f64) -> Reason {
    let Some(growth) = entry.standing.growth else { return Reason::NotMeasured };
    if all_completing {
        return Reason::AllConverged { interval };
    }
    if entry.measurement == Measurement::Silent {
        return Reason::Silent;
    }
    match entry.standing.list {
        List::New => Reason::Growing { growth, part: Share::clamped(entry.standing.limit) },
        List::Watching => Reason::Watching { growth },
        List::Completing => Reason::Converged { growth, floor: Share::clamped(floor) },
    }
}

/// 1/(β·n): the least limit of a converged container among `running` ones.
fn floor(share_floor: f64, running: usize) -> f64 {
    let floor = 1.0 / (share_floor * running.max(1) as f64);
    if floor.is_finite() { floor.clamp(0.0, 1.0) } else { 1.0 }
}

fn measured(measurement: Measurement) -> Option<f64> {
    match measurement {
        Measurement::Fresh(growth) => growth.cpu,
        Measurement::Pending | Measurement::Silent => None,
    }
}

fn all_completing(entries: &[Entry<'_>]) -> bool {
    let mut running = entries.iter().filter(|entry| entry.running).peekable();
    running.peek().is_some() && running.all(|entry| entry.standing.list == List::Completing)
}

fn set_limits(entries: &mut [Entry<'_>], share_floor: f64) {
    let running = || entries.iter().filter(|entry| entry.running);
    let floor = floor(share_floor, running().count());
    let total: f64 = running().filter_map(|entry| entry.standing.growth).map(|growth| growth.max(0.0)).sum();
    let complete = running().all(|entry| entry.standing.growth.is_some());
    for entry in entries.iter_mut().filter(|entry| entry.running && entry.measurement != Measurement::Silent) {
        let Some(growth) = entry.standing.growth else { continue };
        let part = if total > 0.0 { growth.max(0.0) / total } else { 1.0 };
        entry.standing.limit = match entry.standing.list {
            List::New => part,
            List::Watching => entry.standing.limit,
            List::Completing if complete && total > 0.0 => part.max(floor),
            List::Completing => floor,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::GrowthEfficiency;

    const PARAMETERS: Parameters = Parameters { growth_threshold: 0.05, share_floor: 2.0 };

    fn fresh(growth: f64) -> Measurement {
        Measurement::Fresh(GrowthEfficiency { cpu: Some(growth), ..GrowthEfficiency::default() })
    }

    fn round(standings: &mut [Standing], measurements: &[Measurement]) -> bool {
        let mut entries: Vec<Entry<'_>> = standings
            .iter_mut()
            .zip(measurements)
            .map(|(standing, measurement)| Entry { standing, measurement: *measurement, running: true })
            .collect();
        run(&mut entries, &PARAMETERS)
    }

    fn seen(standings: &[Standing]) -> Vec<(List, f64)> {
        standings.iter().map(|s| (s.list, (s.limit * 1e4).round() / 1e4)).collect()
    }

    /// Three containers, α = 0.05, β = 2, worked out on paper from the listing.
    #[test]
    fn algorithm_1_traced_by_hand() {
        use List::{Completing, New, Watching};
        let mut s = vec![Standing::default(); 2];
        // Nothing measured: free competition.
        assert!(!round(&mut s, &[Measurement::Silent, Measurement::Silent]));
        assert_eq!(seen(&s), [(New, 1.0), (New, 1.0)]);
        // ΣG = 0.4: both above α.
        assert!(!round(&mut s, &[fresh(0.3), fresh(0.1)]));
        assert_eq!(seen(&s), [(New, 0.75), (New, 0.25)]);
        // The second falls below α: Watching keeps its limit; ΣG = 0.24.
        assert!(!round(&mut s, &[fresh(0.2), fresh(0.04)]));
        assert_eq!(seen(&s), [(New, 0.8333), (Watching, 0.25)]);
        // A second slow interval: Completing, 0.02/0.18 = 0.111 lies below 1/(2·2).
        assert!(!round(&mut s, &[fresh(0.16), fresh(0.02)]));
        assert_eq!(seen(&s), [(New, 0.8889), (Completing, 0.25)]);
        // A third container starts: unmeasured, L = 1; the floor becomes 1/(2·3).
        s.push(Standing::default());
        assert!(!round(&mut s, &[Measurement::Pending, Measurement::Pending, Measurement::Silent]));
        assert_eq!(seen(&s), [(New, 0.8889), (Completing, 0.1667), (New, 1.0)]);
        // First and third slow down one after the other, the second comes back.
        assert!(!round(&mut s, &[fresh(0.04), fresh(0.06), fresh(0.5)]));
        assert_eq!(seen(&s), [(Watching, 0.8889), (New, 0.1), (New, 0.8333)]);
        assert!(!round(&mut s, &[fresh(0.01), fresh(0.01), fresh(0.03)]));
        assert_eq!(seen(&s), [(Completing, 0.2), (Watching, 0.1), (Watching, 0.8333)]);
        // The last two follow: all in Completing, L = 1 for all.
        assert!(round(&mut s, &[fresh(0.01), fresh(0.01), fresh(0.01)]));
        assert_eq!(seen(&s), [(Completing, 1.0), (Completing, 1.0), (Completing, 1.0)]);
    }

    #[test]
    fn a_converged_container_has_a_limit_of_a_quarter_beside_one_that_just_started() {
        let mut s = vec![Standing { list: List::Completing, limit: 1.0, growth: Some(0.01) }, Standing::default()];
        assert!(!round(&mut s, &[Measurement::Pending, Measurement::Silent]));
        assert_eq!(seen(&s), [(List::Completing, 0.25), (List::New, 1.0)]);
    }

    #[test]
    fn fault_silence_read_as_no_growth_is_not_repeated() {
        let mut s = vec![Standing::default(); 2];
        round(&mut s, &[fresh(0.3), fresh(0.1)]);
        for _ in 0..5 {
            round(&mut s, &[fresh(0.3), Measurement::Silent]);
        }
        assert_eq!(seen(&s)[1], (List::New, 0.25));
    }

    #[test]
    fn fault_divergence_read_as_growth_is_not_repeated() {
        let mut s = vec![Standing::default(); 2];
        round(&mut s, &[fresh(0.1), fresh(0.1)]);
        round(&mut s, &[fresh(0.1), fresh(-0.9)]);
        round(&mut s, &[fresh(0.1), fresh(-0.9)]);
        assert_eq!(seen(&s), [(List::New, 1.0), (List::Completing, 0.25)]);
    }

    #[test]
    fn a_frozen_container_is_not_counted_and_keeps_its_list() {
        let mut s = [Standing::default(), Standing::default()];
        let [first, second] = &mut s;
        let mut entries = [
            Entry { standing: first, measurement: fresh(0.01), running: true },
            Entry { standing: second, measurement: fresh(0.01), running: false },
        ];
        run(&mut entries, &PARAMETERS);
        assert!(run(&mut entries, &PARAMETERS), "the only running one has converged");
        assert_eq!(seen(&s)[1], (List::New, 1.0));
    }
}
