//! The optimum of one step, for a few jobs.
//!
//! The cost of a plan is a sum over its nodes, and a node's cost depends only on its jobs and how they share its GPUs. The best sharing of
//! each set of jobs is computed once; dynamic programming over sets then distributes the jobs among the nodes. This is as exact as the
//! thesis's mixed integer program (§3.1.1), without a solver. Time grows as 3^jobs times nodes.

use super::board::Board;
use super::draft::Draft;
use super::plan::Assignment;

/// Maximum number of jobs: more would take too long.
pub const MOST_JOBS: usize = 10;

/// The best way to run a set of jobs on one node: cost, GPU type, jobs with their numbers of GPUs.
#[derive(Clone, Debug)]
struct Together {
    cost: f64,
    gpu: usize,
    jobs: Vec<(usize, usize)>,
}

/// Returns the cheapest of all plans in which a job runs, if one can; `None` for more than [`MOST_JOBS`] jobs.
pub fn exact(board: &Board<'_>) -> Option<Draft> {
    let jobs = board.order.len();
    if jobs > MOST_JOBS {
        return None;
    }
    let sets = 1_usize << jobs;
    let nodes = board.situation.nodes.len();
    // The cost of waiting that running a set of jobs saves.
    let waiting: Vec<f64> = (0..sets).map(|set| members(set).map(|job| board.waiting_cost(job)).sum()).collect();
    let alike = board.situation.restart_s <= 0.0 && board.situation.fixed.is_empty();
    let mut best = vec![0.0; sets];
    let mut taken: Vec<Vec<usize>> = Vec::new();
    let mut together: Vec<Vec<Option<Together>>> = Vec::new();
    for node in 0..nodes {
        if node == 0 || !alike {
            together.push((0..sets).map(|set| cheapest_sharing(board, node, set)).collect());
        }
        let here = &together[together.len() - 1];
        let mut next = best.clone();
        let mut taken_here = vec![0; sets];
        // best[set]: the greatest saving of the nodes so far if only jobs of `set` may run on them.
        for set in 1..sets {
            let mut part = set;
            while part > 0 {
                if let Some(sharing) = &here[part] {
                    let saved = best[set & !part] + waiting[part] - sharing.cost;
                    if saved > next[set] {
                        next[set] = saved;
                        taken_here[set] = part;
                    }
                }
                part = (part - 1) & set;
            }
        }
        best = next;
        taken.push(taken_here);
    }
    let of_node = |node: usize| &together[if alike { 0 } else { node }];
    let mut draft = Draft { gpu: vec![0; nodes], places: vec![None; jobs] };
    let mut left = sets - 1;
    for node in (0..nodes).rev() {
        let part = taken[node][left];
        if let Some(sharing) = &of_node(node)[part] {
            seat(&mut draft, node, sharing);
        }
        left &= !part;
    }
    if draft.places.iter().all(Option::is_none) {
        // To wait costs less than each way to run. So the cheapest plan with a running job uses one node.
        let ways = (0..nodes).flat_map(|node| of_node(node).iter().enumerate().map(move |way| (node, way)));
        let ways = ways.filter_map(|(node, (set, way))| Some((node, way.as_ref()?, way.as_ref()?.cost - waiting[set])));
        if let Some((node, sharing, _)) = ways.min_by(|one, other| one.2.total_cmp(&other.2)) {
            seat(&mut draft, node, sharing);
        }
    }
    Some(draft)
}

fn seat(draft: &mut Draft, node: usize, sharing: &Together) {
    draft.gpu[node] = sharing.gpu;
    for (job, gpus) in &sharing.jobs {
        draft.places[*job] = Some(Assignment { node, gpus: *gpus });
    }
}

fn members(set: usize) -> impl Iterator<Item = usize> {
    (0..usize::BITS as usize).filter(move |job| set >> job & 1 == 1)
}

fn cheapest_sharing(board: &Board<'_>, node: usize, set: usize) -> Option<Together> {
    let jobs: Vec<usize> = members(set).collect();
    let mut best: Option<Together> = None;
    for gpu in 0..board.situation.catalogue.gpu_types().len() {
        let most = board.situation.catalogue.most_gpus(gpu);
        if jobs.is_empty() || jobs.len() > most {
            continue;
        }
        let mut gpus = vec![1; jobs.len()];
        loop {
            let seats: Vec<(usize, usize)> = jobs.iter().copied().zip(gpus.iter().copied()).collect();
            let cost = board.node_cost(node, gpu, &seats);
            if cost < best.as_ref().map_or(f64::INFINITY, |best| best.cost) {
                best = Some(Together { cost, gpu, jobs: seats });
            }
            if !count_up(&mut gpus, most) {
                break;
            }
        }
    }
    best
}

/// Advances to the next sharing of at most `most` GPUs, at least one each; false after the last.
fn count_up(gpus: &mut [usize], most: usize) -> bool {
    for at in 0..gpus.len() {
        gpus[at] += 1;
        if gpus.iter().sum::<usize>() <= most {
            return true;
        }
        gpus[at] = 1;
    }
    false
}
