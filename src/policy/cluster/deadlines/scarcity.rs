//! The scarcity price: the price of a GPU-second at which the demand of all jobs matches the supply.
//!
//! A late job on all GPUs of a node ends a little sooner and displaces seven others. The thesis's rule (cheapest that meets the deadline,
//! else the fastest) ignores the seven, and a slightly overloaded cluster falls behind for ever. Here each way to run a job pays for its
//! GPU-seconds, at the lowest price at which the jobs together want no more GPUs than there are: zero if there are enough. It is the
//! Lagrange multiplier of the capacity constraint in the relaxed step, found by bisection.

use super::plan::Situation;

/// A waiting job pays this fraction of the current scarcity price when it starts: the price falls while work drains.
const LATER: f64 = 0.7;

/// Bounds of a positive price of a GPU-second, in the currency of the prices.
const LEAST: f64 = 1e-7;
const MOST: f64 = 1.0;

/// Bisection steps on the logarithm of the price: precise to 1.6 %.
const HALVINGS: u32 = 10;

/// Cost of one way to run a job, as a linear function of the scarcity price.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// Cost at a price of zero.
    cost: f64,
    gpu_s: f64,
    gpus: usize,
}

/// Bids of all jobs: for each job the lines of starting now, then those of starting once the present work has drained. Starting later
/// includes the job's weight until then, also if it is not late, because it delays others.
#[derive(Clone, Debug, Default)]
pub(super) struct Bids {
    lines: Vec<Line>,
    /// For each job the end of its lines of starting now, and the end of those of starting later.
    ends: Vec<(usize, usize)>,
}

impl Bids {
    /// Creates an empty list with capacity for `jobs` jobs.
    pub(super) fn with_capacity(jobs: usize) -> Bids {
        Bids { lines: Vec::with_capacity(jobs * 8), ends: Vec::with_capacity(jobs) }
    }

    /// Adds the next job, from its ways to start in ascending order of GPU-seconds.
    pub(super) fn push(&mut self, ways: &[Way]) {
        envelope(&mut self.lines, ways.iter().map(|way| Line { cost: way.now, gpu_s: way.gpu_s, gpus: way.gpus }));
        let now = self.lines.len();
        envelope(&mut self.lines, ways.iter().map(|way| Line { cost: way.later, gpu_s: way.gpu_s, gpus: way.gpus }));
        self.ends.push((now, self.lines.len()));
    }

    /// Returns each job's lines of starting now and of starting later.
    fn jobs(&self) -> impl Iterator<Item = (&[Line], &[Line])> {
        let mut start = 0;
        self.ends.iter().map(move |(now, end)| {
            let lines = (&self.lines[start..*now], &self.lines[*now..*end]);
            start = *end;
            lines
        })
    }

    /// Returns the cost of waiting of each job at a price.
    pub(super) fn waiting(&self, price: f64) -> impl Iterator<Item = f64> {
        self.jobs().map(move |(_, later)| waiting(later, price))
    }

    /// Whether the jobs want at most `gpus` GPUs at a price.
    fn fits(&self, price: f64, gpus: usize) -> bool {
        let mut left = gpus;
        self.jobs().all(|(now, later)| {
            let rest = left.checked_sub(wanted(now, later, price));
            left = rest.unwrap_or(0);
            rest.is_some()
        })
    }

    /// Returns the lowest price at which the bids fit on the GPUs; [`MOST`] if they never fit.
    pub(super) fn clearing(&self, gpus: usize) -> f64 {
        if self.fits(0.0, gpus) {
            return 0.0;
        }
        let (mut low, mut high) = (LEAST, MOST);
        for _ in 0..HALVINGS {
            let middle = (low * high).sqrt();
            if self.fits(middle, gpus) { high = middle } else { low = middle }
        }
        high
    }
}

/// One way to run a job, with its cost at a price of zero if it starts now or later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub now: f64,
    pub later: f64,
    pub gpu_s: f64,
    pub gpus: usize,
}

/// Returns the cost of waiting of a job at a price.
fn waiting(later: &[Line], price: f64) -> f64 {
    later.iter().map(|line| line.cost + LATER * price * line.gpu_s).fold(f64::INFINITY, f64::min)
}

/// Returns the number of GPUs that a job wants at a price.
fn wanted(now: &[Line], later: &[Line], price: f64) -> usize {
    let mut best = (waiting(later, price), 0);
    for line in now {
        let cost = line.cost + price * line.gpu_s;
        if cost <= best.0 {
            best = (cost, line.gpus);
        }
    }
    best.1
}

/// Returns the greatest number of GPUs that could be open.
pub(super) fn gpus(situation: &Situation<'_>) -> usize {
    if !situation.fixed.is_empty() {
        return situation.fixed.iter().map(|node_type| situation.catalogue.nodes()[*node_type].gpus).sum();
    }
    let types = 0..situation.catalogue.gpu_types().len();
    situation.nodes.len() * types.map(|gpu| situation.catalogue.most_gpus(gpu)).max().unwrap_or(0)
}

/// Returns the seconds until all GPUs together have drained the present work.
pub(super) fn drained_s(situation: &Situation<'_>) -> f64 {
    let work: f64 = situation.jobs.iter().map(|job| job.left * job.times.least_gpu_s()).sum();
    work / gpus(situation).max(1) as f64
}

/// Adds the lines that cost least at some price: the lower convex hull of cost over GPU-seconds. `lines` are in ascending order of GPU-seconds.
fn envelope(hull: &mut Vec<Line>, lines: impl Iterator<Item = Line>) {
    let (start, mut least) = (hull.len(), f64::INFINITY);
    for line in lines {
        if line.cost >= least {
            continue;
        }
        least = line.cost;
        if hull[start..].last().is_some_and(|last| line.gpu_s <= last.gpu_s) {
            hull.pop();
        }
        while let [.., before, last] = &hull[start..] {
            let slope = |one: &Line, other: &Line| (other.cost - one.cost) / (other.gpu_s - one.gpu_s);
            if slope(before, last) < slope(last, &line) {
                break;
            }
            hull.pop();
        }
        hull.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(gpu_s: f64, cost: f64) -> Line {
        Line { cost, gpu_s, gpus: gpu_s as usize }
    }

    #[test]
    fn the_envelope_has_the_same_least_cost_as_all_lines_at_every_price() {
        let all = [line(1.0, 10.0), line(2.0, 9.0), line(2.0, 8.0), line(3.0, 5.0), line(4.0, 4.9), line(5.0, 6.0)];
        let mut hull = vec![line(0.5, 0.1)];
        envelope(&mut hull, all.iter().copied());
        let hull = &hull[1..];
        assert!(hull.len() < all.len());
        for step in 0..200 {
            let price = f64::from(step) * 0.05;
            let least =
                |lines: &[Line]| lines.iter().map(|line| line.cost + price * line.gpu_s).fold(f64::INFINITY, f64::min);
            assert_eq!(least(hull), least(&all), "at {price}");
        }
    }

    #[test]
    fn the_price_is_zero_if_the_bids_fit_and_clears_otherwise() {
        // With four GPUs on time at a rent of 4; with one GPU a rent of 1 and lateness of 9.
        let way = |gpus: usize, now: f64| Way { now, later: 100.0, gpu_s: gpus as f64, gpus };
        let clearing = |ways: [Way; 2], gpus: usize| {
            let mut bids = Bids::default();
            (0..2).for_each(|_| bids.push(&ways));
            bids.clearing(gpus)
        };
        let dear = [way(1, 10.0), way(4, 4.0)];
        assert_eq!(clearing(dear, 8), 0.0);
        // At 2 per GPU-second both ways cost the same; the price is limited to 1, where both jobs still want four.
        assert_eq!(clearing(dear, 5), MOST);
        let price = clearing([way(1, 1.0), way(4, 0.4)], 5);
        assert!((0.2..0.21).contains(&price), "{price}");
    }
}
