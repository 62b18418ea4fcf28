//! Baseline methods that decide by queue order alone.
//!
//! FIFO, EDF and priority: thesis §4.2, with the semantics of the published simulator. One job per node, never preempted; the first waiting
//! job takes the first free node. Its setup is the cheapest (price of the node times run time) that ends before the deadline if started
//! now, else the fastest. Since they do not share nodes, a gain over them is mostly the gain of sharing. Packed EDF is EDF on shared nodes.

use super::catalogue::Catalogue;
use super::plan::{Assignment, Plan, Situation, SubmittedJob};

/// Queue order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// First come, first served.
    Fifo,
    /// Earliest deadline first.
    Edf,
    /// The largest weight of lateness first.
    Priority,
    /// Earliest deadline first, on shared nodes; never preempted. The only one that knows fixed types of nodes.
    PackedEdf,
}

/// One way to run a job: GPU type, number of GPUs, cost, seconds.
type Setup = (usize, usize, f64, f64);

/// Returns the plan of a baseline method.
pub fn baseline(situation: &Situation<'_>, queue: Queue) -> Plan {
    let mut order: Vec<usize> = (0..situation.jobs.len()).filter(|job| situation.jobs[*job].place.is_none()).collect();
    order.sort_by(|one, other| {
        let (one, other) = (&situation.jobs[*one], &situation.jobs[*other]);
        let first = match queue {
            Queue::Fifo => std::cmp::Ordering::Equal,
            Queue::Edf | Queue::PackedEdf => one.deadline_s.total_cmp(&other.deadline_s),
            Queue::Priority => other.weight.total_cmp(&one.weight),
        };
        first.then(one.number.cmp(&other.number))
    });
    let mut plan = Plan { nodes: vec![None; situation.nodes.len()], places: vec![None; situation.jobs.len()] };
    for (at, job) in situation.jobs.iter().enumerate() {
        if let Some(place) = job.place {
            plan.places[at] = Some(place);
            plan.nodes[place.node] = situation.nodes[place.node];
        }
    }
    match queue {
        Queue::PackedEdf => packed(situation, &order, &mut plan),
        _ => alone(situation, &order, &mut plan),
    }
    plan
}

/// Places one job per node.
fn alone(situation: &Situation<'_>, order: &[usize], plan: &mut Plan) {
    let catalogue = situation.catalogue;
    for at in order {
        let Some(node) = plan.nodes.iter().position(Option::is_none) else { return };
        let job = &situation.jobs[*at];
        let price = |node_type: usize| catalogue.price_per_s(node_type);
        let setups =
            setups(situation, job, |gpu, gpus| catalogue.cheapest_with(gpu, gpus).map_or(f64::INFINITY, price));
        if let Some((gpu, gpus, ..)) = best(situation.now_s, job, setups) {
            plan.nodes[node] = catalogue.cheapest_with(gpu, gpus);
            plan.places[*at] = Some(Assignment { node, gpus });
        }
    }
}

/// Places jobs on shared nodes: the best setup that fits now, on the node where fewest GPUs remain idle, else on a new node.
fn packed(situation: &Situation<'_>, order: &[usize], plan: &mut Plan) {
    let catalogue = situation.catalogue;
    let fixed = |node: usize| situation.fixed.get(node).copied();
    let mut gpu_of: Vec<Option<usize>> = (0..plan.nodes.len())
        .map(|node| fixed(node).or(plan.nodes[node]).map(|node_type| catalogue.nodes()[node_type].gpu))
        .collect();
    let mut used = vec![0; gpu_of.len()];
    for place in plan.places.iter().flatten() {
        used[place.node] += place.gpus;
    }
    for at in order {
        let job = &situation.jobs[*at];
        let room = |gpu: usize, gpus: usize| {
            let fits = (0..used.len()).filter(|node| gpu_of[*node].is_none_or(|open| open == gpu));
            let size = |node: usize| size_of(situation, gpu, node, plan.nodes[node]);
            let fits = fits.filter(|node| used[*node] + gpus <= size(*node));
            fits.min_by_key(|node| {
                (situation.nodes[*node].is_none() && used[*node] == 0, size(*node) - used[*node], *node)
            })
        };
        let setups = setups(situation, job, |gpu, gpus| catalogue.gpu_price_per_s(gpu) * gpus as f64);
        let setups = setups.filter(|(gpu, gpus, ..)| room(*gpu, *gpus).is_some());
        let Some((gpu, gpus, ..)) = best(situation.now_s, job, setups) else { continue };
        let Some(node) = room(gpu, gpus) else { continue };
        plan.places[*at] = Some(Assignment { node, gpus });
        used[node] += gpus;
        gpu_of[node] = Some(gpu);
        if let Some(fixed) = fixed(node) {
            plan.nodes[node] = Some(fixed);
        } else if situation.restart_s > 0.0 && plan.nodes[node].is_none() {
            plan.nodes[node] = catalogue.cheapest_with(gpu, catalogue.most_gpus(gpu));
        }
    }
    if situation.restart_s <= 0.0 && situation.fixed.is_empty() {
        let fitting = |node: usize| {
            gpu_of[node].filter(|_| used[node] > 0).and_then(|gpu| catalogue.cheapest_with(gpu, used[node]))
        };
        plan.nodes = (0..used.len()).map(fitting).collect();
    }
}

/// Returns the number of GPUs that a node can have: unless its type is fixed, it may become the largest of its type if a restart costs nothing.
fn size_of(situation: &Situation<'_>, gpu: usize, node: usize, open: Option<usize>) -> usize {
    let largest = situation.catalogue.most_gpus(gpu);
    match situation.fixed.get(node).copied().or(open) {
        Some(node_type) if !situation.fixed.is_empty() => situation.catalogue.nodes()[node_type].gpus,
        Some(node_type) if situation.restart_s > 0.0 => situation.catalogue.nodes()[node_type].gpus,
        _ => largest,
    }
}

fn setups<'s>(
    situation: &'s Situation<'_>,
    job: &'s SubmittedJob<'_>,
    price_per_s: impl Fn(usize, usize) -> f64 + 's,
) -> impl Iterator<Item = Setup> + 's {
    job.times.all().filter_map(move |(gpu, gpus, _)| {
        let seconds = situation.seconds_left(job, gpu, gpus, false)?;
        Some((gpu, gpus, price_per_s(gpu, gpus) * seconds, seconds))
    })
}

/// Returns the cheapest setup that ends before the deadline, else the fastest.
fn best(now_s: f64, job: &SubmittedJob<'_>, setups: impl Iterator<Item = Setup>) -> Option<Setup> {
    let key = |(_, _, cost, seconds): &Setup| -> (f64, f64) {
        if now_s + seconds < job.deadline_s { (0.0, *cost) } else { (1.0, *seconds) }
    };
    setups.min_by(|one, other| {
        let (one, other) = (key(one), key(other));
        one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1))
    })
}

/// Returns the lower bound of a schedule's cost: each job on its cheapest setup, without idle GPUs or lateness.
pub fn lower_bound<'t>(catalogue: &Catalogue, jobs: impl Iterator<Item = &'t super::catalogue::RunTimes>) -> f64 {
    jobs.map(|times| catalogue.least_cost(times)).sum()
}
