//! The scarcity price: what a GPU-second must cost so that what the jobs want is what there is.
//!
//! A late job on all GPUs of a node ends a little sooner and takes the place of seven others. The thesis's rule (cheapest that meets
//! the deadline, else the fastest) does not see the seven, and a cluster that is a little overloaded falls behind for ever. Here every
//! way to run a job pays for its GPU-seconds, at the price at which the jobs together want no more GPUs than there are: zero where
//! there are enough. It is the multiplier of the capacity in the step's relaxation, found by bisection.
//! Imports: nothing of this crate but the plan.

use super::plan::Situation;

/// A job that waits pays this part of today's scarcity price when it starts: the price falls while work drains.
const LATER: f64 = 0.7;

/// No price of a GPU-second is below or above these, in the currency of the prices.
const LEAST: f64 = 1e-7;
const MOST: f64 = 1.0;

/// Halvings of the logarithm of the price: 1.6 % of it.
const HALVINGS: u32 = 10;

/// One way to run a job, as a line over the scarcity price.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// Cost at a price of zero.
    cost: f64,
    gpu_s: f64,
    gpus: usize,
}

/// What the jobs may ask for: for each the lines of starting now, then those of starting when the work that is there has drained, and
/// paying the job's weight until then: late or not, it is in the way of others.
#[derive(Clone, Debug, Default)]
pub(super) struct Bids {
    lines: Vec<Line>,
    /// For each job where its lines of now end, and where those of later end.
    ends: Vec<(usize, usize)>,
}

impl Bids {
    /// Room for the bids of so many jobs.
    pub fn with_capacity(jobs: usize) -> Bids {
        Bids { lines: Vec::with_capacity(jobs * 8), ends: Vec::with_capacity(jobs) }
    }

    /// The next job, from its ways to start, the fewest GPU-seconds first.
    pub fn push(&mut self, ways: &[Way]) {
        envelope(&mut self.lines, ways.iter().map(|way| Line { cost: way.now, gpu_s: way.gpu_s, gpus: way.gpus }));
        let now = self.lines.len();
        envelope(&mut self.lines, ways.iter().map(|way| Line { cost: way.later, gpu_s: way.gpu_s, gpus: way.gpus }));
        self.ends.push((now, self.lines.len()));
    }

    /// Each job's lines of now and of later.
    fn jobs(&self) -> impl Iterator<Item = (&[Line], &[Line])> {
        let mut start = 0;
        self.ends.iter().map(move |(now, end)| {
            let lines = (&self.lines[start..*now], &self.lines[*now..*end]);
            start = *end;
            lines
        })
    }

    /// What waiting costs each job at a price.
    pub fn waiting(&self, price: f64) -> impl Iterator<Item = f64> {
        self.jobs().map(move |(_, later)| waiting(later, price))
    }

    /// Whether no more GPUs are wanted at a price than there are.
    fn fits(&self, price: f64, gpus: usize) -> bool {
        let mut left = gpus;
        self.jobs().all(|(now, later)| {
            let rest = left.checked_sub(wanted(now, later, price));
            left = rest.unwrap_or(0);
            rest.is_some()
        })
    }

    /// The least price at which the bids fit on the GPUs; the highest price there is where they never fit.
    pub fn clearing(&self, gpus: usize) -> f64 {
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

/// One way to start a job, and what it costs at a price of zero: now, or later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub now: f64,
    pub later: f64,
    pub gpu_s: f64,
    pub gpus: usize,
}

/// What waiting costs a job at a price.
fn waiting(later: &[Line], price: f64) -> f64 {
    later.iter().map(|line| line.cost + LATER * price * line.gpu_s).fold(f64::INFINITY, f64::min)
}

/// How many GPUs a job wants at a price.
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

/// All GPUs that could be open.
pub(super) fn gpus(situation: &Situation<'_>) -> usize {
    let types = 0..situation.catalogue.gpu_types().len();
    situation.nodes.len() * types.map(|gpu| situation.catalogue.most_gpus(gpu)).max().unwrap_or(0)
}

/// Seconds until all GPUs together have done the work that is there.
pub(super) fn drained_s(situation: &Situation<'_>) -> f64 {
    let work: f64 = situation.jobs.iter().map(|job| job.left * job.times.least_gpu_s()).sum();
    work / gpus(situation).max(1) as f64
}

/// Adds the lines that cost least at some price: the lower convex hull of cost over GPU-seconds. Fewest GPU-seconds come first.
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
    fn the_envelope_costs_what_all_lines_cost_at_every_price() {
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
    fn the_price_is_zero_with_room_and_clears_without() {
        // On time with four GPUs at a rent of 4, with one GPU at a rent of 1 late by 9.
        let way = |gpus: usize, now: f64| Way { now, later: 100.0, gpu_s: gpus as f64, gpus };
        let clearing = |ways: [Way; 2], gpus: usize| {
            let mut bids = Bids::default();
            (0..2).for_each(|_| bids.push(&ways));
            bids.clearing(gpus)
        };
        let dear = [way(1, 10.0), way(4, 4.0)];
        assert_eq!(clearing(dear, 8), 0.0);
        // At 2 a GPU-second both ways cost the same; bounds stop at a price of 1, where both still want four.
        assert_eq!(clearing(dear, 5), MOST);
        let price = clearing([way(1, 1.0), way(4, 0.4)], 5);
        assert!((0.2..0.21).contains(&price), "{price}");
    }
}
