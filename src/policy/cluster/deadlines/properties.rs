//! Properties of the plans of all methods on random situations, and the methods' distance from the optimum.

use super::testing::World;
use super::{Assignment, Board, Draft, Plan, Queue, Rule, Situation, baseline, check, exact, merge, split};
use proptest::prelude::*;

/// Returns the three cheapest of the greedy and `constructions` randomised constructions.
fn elite(board: &Board<'_>, constructions: u64) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = (0..constructions).map(|number| board.construction(7, number)).collect();
    drafts.push(board.greedy());
    drafts.sort_by(|one, other| board.cost(one).total_cmp(&board.cost(other)));
    drafts.truncate(3);
    drafts
}

fn every_plan(situation: &Situation<'_>) -> Vec<(String, Plan)> {
    let mut plans = Vec::new();
    for rule in [Rule::Scarcity, Rule::Thesis] {
        let board = Board::new(situation, rule);
        plans.push((format!("greedy {rule:?}"), board.plan(&board.greedy())));
    }
    let board = Board::new(situation, Rule::Scarcity);
    plans.push(("random".to_owned(), board.plan(&board.construction(3, 1))));
    plans.push(("local".to_owned(), board.plan(&board.improve(&board.construction(3, 2)))));
    for queue in [Queue::Fifo, Queue::Edf, Queue::Priority, Queue::PackedEdf] {
        plans.push((format!("{queue:?}"), baseline(situation, queue)));
    }
    if let Some(draft) = exact(&board).filter(|_| situation.jobs.len() <= 4) {
        plans.push(("exact".to_owned(), board.plan(&draft)));
    }
    plans
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_plan_passes_the_check(seed: u64, nodes in 1_usize..6, jobs in 1_usize..25, running: bool, restarts: bool) {
        let world = World::drawn(seed, nodes, jobs, running, if restarts { 600.0 } else { 0.0 });
        let list = world.job_list();
        let situation = world.situation(&list);
        for (name, plan) in every_plan(&situation) {
            prop_assert_eq!(check(&situation, &plan), [], "{}", name);
        }
    }

    #[test]
    fn every_plan_on_machines_that_exist_passes_the_check(seed: u64, nodes in 1_usize..6, jobs in 1_usize..25, running: bool) {
        let world = World::drawn(seed, nodes, jobs, running, 600.0).with_machines(seed);
        let list = world.job_list();
        let situation = world.situation(&list);
        let board = Board::new(&situation, Rule::Scarcity);
        let (greedy, drawn) = (board.greedy(), board.construction(3, 2));
        let improved = board.improve(&drawn);
        prop_assert!(board.cost(&improved) <= board.cost(&drawn));
        let best = if jobs <= 4 { exact(&board) } else { None };
        for draft in [&greedy, &drawn, &improved].into_iter().chain(&best) {
            prop_assert_eq!(check(&situation, &board.plan(draft)), []);
            prop_assert!(best.as_ref().is_none_or(|best| board.cost(best) <= board.cost(draft) + 1e-6));
        }
        prop_assert_eq!(check(&situation, &baseline(&situation, Queue::PackedEdf)), []);
    }

    #[test]
    fn baselines_leave_running_jobs_in_place(seed: u64, jobs in 1_usize..25, restarts: bool) {
        let world = World::drawn(seed, 4, jobs, true, if restarts { 600.0 } else { 0.0 });
        let list = world.job_list();
        let situation = world.situation(&list);
        for queue in [Queue::Fifo, Queue::Edf, Queue::Priority, Queue::PackedEdf] {
            let plan = baseline(&situation, queue);
            for (job, place) in list.iter().zip(&plan.places) {
                prop_assert!(job.place.is_none() || job.place == *place, "{:?}", queue);
            }
            let runs_alone = |place: &Assignment| plan.places.iter().flatten().filter(|other| other.node == place.node).count() == 1;
            let new = list.iter().zip(&plan.places).filter(|(job, _)| job.place.is_none()).filter_map(|(_, place)| place.as_ref());
            prop_assert!(queue == Queue::PackedEdf || new.into_iter().all(runs_alone), "{:?}", queue);
        }
    }

    #[test]
    fn local_search_never_increases_the_cost(seed: u64, nodes in 1_usize..5, jobs in 1_usize..20, running: bool) {
        let world = World::drawn(seed, nodes, jobs, running, 300.0);
        let list = world.job_list();
        let situation = world.situation(&list);
        let board = Board::new(&situation, Rule::Scarcity);
        let draft = board.construction(1, 1);
        prop_assert!(board.cost(&board.improve(&draft)) <= board.cost(&draft));
    }

    #[test]
    fn no_method_is_cheaper_than_the_optimum(seed: u64, nodes in 1_usize..4, jobs in 1_usize..6, running: bool, restarts: bool) {
        let world = World::drawn(seed, nodes, jobs, running, if restarts { 600.0 } else { 0.0 });
        let list = world.job_list();
        let situation = world.situation(&list);
        let board = Board::new(&situation, Rule::Scarcity);
        let optimum = board.cost(&exact(&board).unwrap());
        for number in 0..20 {
            prop_assert!(optimum <= board.cost(&board.improve(&board.construction(9, number))) + 1e-6);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_plan(seed: u64, number: u64) {
        let world = World::drawn(seed, 3, 12, true, 0.0);
        let list = world.job_list();
        let situation = world.situation(&list);
        let draft = || Board::new(&situation, Rule::Scarcity).construction(seed, number);
        prop_assert_eq!(draft(), draft());
    }

    #[test]
    fn each_job_has_one_controller_and_the_merged_plan_passes_the_check(seed: u64, controllers in 1_usize..6, running: bool) {
        let world = World::drawn(seed, 4, 15, false, 0.0);
        let mut list = world.job_list();
        let mut nodes = world.nodes.clone();
        if running {
            nodes[3] = Some(3);
            list[3].place = Some(Assignment { node: 3, gpus: 2 });
        }
        let situation = Situation { nodes: &nodes, ..world.situation(&list) };
        let parts: Vec<_> = split(&situation, controllers).into_iter().map(|part| {
            let (nodes, fixed, jobs) = (part.nodes_of(&situation), part.fixed_of(&situation), part.jobs_of(&situation));
            let own = Situation { nodes: &nodes, fixed: &fixed, jobs: &jobs, ..situation.clone() };
            let board = Board::new(&own, Rule::Scarcity);
            let plan = board.plan(&board.greedy());
            (part, plan)
        }).collect();
        let mut seen: Vec<usize> = parts.iter().flat_map(|(part, _)| part.jobs.clone()).collect();
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..15).collect::<Vec<_>>());
        prop_assert_eq!(check(&situation, &merge(&situation, &parts)), []);
    }
}

/// Returns the cost of the cheapest plan, by trying all.
fn brute_force(board: &Board<'_>, draft: &mut Draft, job: usize) -> f64 {
    let situation = board.situation;
    if job == situation.jobs.len() {
        let types = situation.catalogue.gpu_types().len();
        let all = 0..types.pow(situation.nodes.len() as u32);
        return all
            .map(|code| {
                draft.gpu = (0..situation.nodes.len()).map(|node| code / types.pow(node as u32) % types).collect();
                board.cost(draft)
            })
            .fold(f64::INFINITY, f64::min);
    }
    draft.places[job] = None;
    let mut best = brute_force(board, draft, job + 1);
    for node in 0..situation.nodes.len() {
        for gpus in 1..=8 {
            draft.places[job] = Some(Assignment { node, gpus });
            best = best.min(brute_force(board, draft, job + 1));
        }
    }
    draft.places[job] = None;
    best
}

#[test]
fn exact_finds_the_same_cost_as_brute_force() {
    for seed in 0..12 {
        let world = World::drawn(seed, 2, 3, seed % 2 == 1, if seed % 3 == 0 { 5_000.0 } else { 0.0 });
        let list = world.job_list();
        let situation = world.situation(&list);
        let board = Board::new(&situation, Rule::Scarcity);
        let found = board.cost(&exact(&board).unwrap());
        let tried = brute_force(&board, &mut Draft { gpu: vec![0; 2], places: vec![None; 3] }, 0);
        assert!((found - tried).abs() < 1e-6 * tried, "seed {seed}: {found}, by trying {tried}");
    }
}

#[test]
fn local_search_is_within_five_percent_of_the_optimum() {
    let (mut random, mut local, mut worst, mut count) = (0.0, 0.0, 0.0_f64, 0.0);
    for seed in 0..40 {
        let (nodes, jobs) = (1 + seed as usize % 3, 3 + seed as usize % 8);
        let world = World::drawn(seed, nodes, jobs, seed % 2 == 0, 0.0);
        let list = world.job_list();
        let situation = world.situation(&list);
        let board = Board::new(&situation, Rule::Scarcity);
        let optimum = board.cost(&exact(&board).unwrap());
        let elite = elite(&board, 500);
        let gap = |draft: &Draft| board.cost(draft) / optimum - 1.0;
        random += gap(&elite[0]);
        let improved = elite.iter().map(|draft| gap(&board.improve(draft))).fold(f64::INFINITY, f64::min);
        local += improved;
        worst = worst.max(improved);
        count += 1.0;
    }
    let means = (random / count, local / count);
    assert!(means.0 <= 0.05 && means.1 <= 0.01 && worst <= 0.05, "random, local {means:?}, worst of local {worst}");
}

#[test]
fn a_job_runs_in_the_optimum_even_where_waiting_costs_less() {
    let world = World::drawn(15217225238562763109, 3, 1, true, 600.0).with_machines(15217225238562763109);
    let list = world.job_list();
    let situation = world.situation(&list);
    let board = Board::new(&situation, Rule::Scarcity);
    let draft = exact(&board).unwrap();
    assert!(board.waiting_cost(0) < board.cost(&draft), "waiting costs more");
    assert_eq!(check(&situation, &board.plan(&draft)), []);
}

#[test]
fn exact_rejects_too_many_jobs() {
    let world = World::drawn(1, 2, 11, false, 0.0);
    let list = world.job_list();
    assert!(exact(&Board::new(&world.situation(&list), Rule::Scarcity)).is_none());
}

#[test]
fn scarce_gpus_are_shared_and_plentiful_ones_are_not_rationed() {
    // One node, eight late jobs: the thesis's rule gives all GPUs to the first job, the scarcity price one to nearly each.
    let crowded = World::drawn(6, 1, 8, false, 0.0);
    let list = crowded.job_list();
    let situation = crowded.situation(&list);
    let running = |rule: Rule| {
        let board = Board::new(&situation, rule);
        board.greedy().places.iter().flatten().count()
    };
    assert!(
        running(Rule::Scarcity) >= 7 && running(Rule::Thesis) <= 2,
        "{} {}",
        running(Rule::Scarcity),
        running(Rule::Thesis)
    );

    // As many nodes as jobs: each job that can meet its deadline does.
    let roomy = World::drawn(5, 8, 8, false, 0.0);
    let list = roomy.job_list();
    let situation = roomy.situation(&list);
    let board = Board::new(&situation, Rule::Scarcity);
    let plan = board.plan(&board.greedy());
    for (job, place) in list.iter().zip(&plan.places) {
        let place = place.unwrap();
        let gpu = situation.catalogue.nodes()[plan.nodes[place.node].unwrap()].gpu;
        let seconds = job.times.seconds(gpu, place.gpus).unwrap();
        assert!(seconds <= job.deadline_s.max(job.times.fastest_s()) * 1.02, "{seconds} for {}", job.deadline_s);
    }
}

#[test]
fn no_job_is_restarted_if_that_costs_more_than_it_gains() {
    let mut world = World::drawn(11, 3, 9, true, 0.0);
    let moved = |world: &World| {
        let list = world.job_list();
        let situation = world.situation(&list);
        let board = Board::new(&situation, Rule::Scarcity);
        let plan = board.plan(&board.improve(&board.greedy()));
        (0..list.len()).filter(|job| list[*job].place.is_some() && !plan.stays(&situation, *job)).count()
    };
    let free = moved(&world);
    world.restart_s = 1e7;
    assert!(free > 0 && moved(&world) == 0, "{free} then {}", moved(&world));
}
