//! The scarcity price: what a GPU-second must cost so that what the jobs want is what there is.
//!
//! A late job on all GPUs of a node ends a little sooner and takes the place of seven others. The thesis's rule (cheapest that meets
//! the deadline, else the fastest) does not see the seven, and a cluster that is a little overloaded falls behind for ever. Here every
//! way to run a job pays for its GPU-seconds, at the price at which the jobs together want no more GPUs than there are: zero where
//! there are enough. It is the multiplier of the capacity in the step's relaxation, found by bisection.
//! Imports: nothing of this crate but the plan.

use super::plan::{Cell, Situation};

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

/// What a job may ask for.
#[derive(Clone, Debug)]
pub(super) struct Bids {
    /// Starting now.
    now: Vec<Line>,
    /// Starting when the work that is there has drained, and paying the job's weight until then: late or not, it is in the way of others.
    later: Vec<Line>,
}

impl Bids {
    /// What waiting costs at a price.
    pub fn waiting(&self, price: f64) -> f64 {
        self.later.iter().map(|line| line.cost + LATER * price * line.gpu_s).fold(f64::INFINITY, f64::min)
    }

    /// How many GPUs the job wants at a price.
    fn wanted(&self, price: f64) -> usize {
        let mut best = (self.waiting(price), 0);
        for line in &self.now {
            let cost = line.cost + price * line.gpu_s;
            if cost <= best.0 {
                best = (cost, line.gpus);
            }
        }
        best.1
    }
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

/// What each job may ask for, given its cells: GPU type, number of GPUs, and what comes of it.
pub(super) fn bids<Cells: Iterator<Item = (usize, usize, Cell)>>(
    situation: &Situation<'_>,
    drained_s: f64,
    cells: impl Fn(usize) -> Cells,
) -> Vec<Bids> {
    let mut ways = Vec::with_capacity(16);
    let of_job = |(at, job): (usize, &super::plan::Job<'_>)| {
        ways.clear();
        for (gpu, gpus, cell) in cells(at) {
            let rent = situation.catalogue.gpu_price_per_s(gpu) * cell.gpu_s;
            let late = job.weight * (situation.now_s + drained_s + cell.seconds - job.deadline_s).max(0.0);
            let now = Line { cost: rent + cell.lateness, gpu_s: cell.gpu_s, gpus };
            ways.push((now, rent + late + job.weight * drained_s));
        }
        ways.sort_unstable_by(|(one, _), (other, _)| one.gpu_s.total_cmp(&other.gpu_s));
        let later = ways.iter().map(|(now, cost)| Line { cost: *cost, ..*now });
        Bids { now: envelope(ways.iter().map(|(now, _)| *now)), later: envelope(later) }
    };
    situation.jobs.iter().enumerate().map(of_job).collect()
}

/// The lines that cost least at some price: the lower convex hull of cost over GPU-seconds. Fewest GPU-seconds come first.
fn envelope(lines: impl Iterator<Item = Line>) -> Vec<Line> {
    let mut hull: Vec<Line> = Vec::with_capacity(4);
    for line in lines {
        if hull.last().is_some_and(|last| line.cost >= last.cost) {
            continue;
        }
        if hull.last().is_some_and(|last| line.gpu_s <= last.gpu_s) {
            hull.pop();
        }
        while let [.., before, last] = hull.as_slice() {
            let slope = |one: &Line, other: &Line| (other.cost - one.cost) / (other.gpu_s - one.gpu_s);
            if slope(before, last) < slope(last, &line) {
                break;
            }
            hull.pop();
        }
        hull.push(line);
    }
    hull
}

/// The least price at which the bids fit on the GPUs; the highest price there is where they never fit.
pub(super) fn clearing(bids: &[Bids], gpus: f64) -> f64 {
    let fits = |price: f64| bids.iter().map(|job| job.wanted(price)).sum::<usize>() as f64 <= gpus;
    if fits(0.0) {
        return 0.0;
    }
    let (mut low, mut high) = (LEAST, MOST);
    for _ in 0..HALVINGS {
        let middle = (low * high).sqrt();
        if fits(middle) { high = middle } else { low = middle }
    }
    high
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
        let hull = envelope(all.iter().copied());
        assert!(hull.len() < all.len());
        for step in 0..200 {
            let price = f64::from(step) * 0.05;
            let least =
                |lines: &[Line]| lines.iter().map(|line| line.cost + price * line.gpu_s).fold(f64::INFINITY, f64::min);
            assert_eq!(least(&hull), least(&all), "at {price}");
        }
    }

    #[test]
    fn the_price_is_zero_with_room_and_clears_without() {
        // On time with four GPUs at a rent of 4, with one GPU at a rent of 1 late by 9.
        let job = || Bids { now: vec![line(1.0, 10.0), line(4.0, 4.0)], later: vec![line(1.0, 100.0)] };
        assert_eq!(clearing(&[job(), job()], 8.0), 0.0);
        // At 2 a GPU-second both ways cost the same; bounds stop at a price of 1, where both still want four.
        assert_eq!(clearing(&[job(), job()], 5.0), MOST);
        let cheap = || Bids { now: vec![line(1.0, 1.0), line(4.0, 0.4)], later: vec![line(1.0, 100.0)] };
        let price = clearing(&[cheap(), cheap()], 5.0);
        assert!((0.2..0.21).contains(&price), "{price}");
    }
}
