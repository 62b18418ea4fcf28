//! Tests of `flowsim cluster`: the results of the policies on schedules not used for tuning, and the command line.

use assert_cmd::Command;
use flowcon::model::{Millis, PolicySettings};
use flowcon::sim::cluster::{ClusterScenario, ClusterSummary, ClusterVariant, Costs, compare, simulate};
use serde_json::Value;

/// First seed of the tests; rules were tuned on seeds from 0 on.
const UNSEEN: u64 = 1_000;

/// The results of the base and of each policy.
fn compare_policies(scenario: &str, policies: &[&str], seeds: u64) -> (ClusterSummary, Vec<ClusterSummary>) {
    compare_with(&PolicySettings::default(), 10.0, scenario, policies, seeds)
}

fn compare_with(
    settings: &PolicySettings,
    move_s: f64,
    scenario: &str,
    policies: &[&str],
    seeds: u64,
) -> (ClusterSummary, Vec<ClusterSummary>) {
    let scenario = ClusterScenario::open(scenario, None).unwrap();
    let variants: Vec<ClusterVariant> =
        policies.iter().map(|name| ClusterVariant::named(name, settings).unwrap()).collect();
    let comparison = compare(&scenario, &variants, UNSEEN, seeds, move_s).unwrap();
    (comparison.base, comparison.policies.into_iter().map(|(_, summary)| summary).collect())
}

fn change(base: f64, after: f64) -> f64 {
    after / base - 1.0
}

#[test]
fn the_default_policy_meets_its_bounds_on_the_papers_schedules() {
    for (scenario, completion, makespan) in [
        ("procon-20x4", -0.15, -0.05),
        ("procon-30x4", -0.24, -0.05),
        ("procon-40x4", -0.29, -0.05),
        ("procon-60x7", -0.15, -0.02), // in 1,200 s, as published: at half the load of the others there is less to gain
        ("specon-20x4", -0.22, -0.06),
    ] {
        let (base, of) = compare_policies(scenario, &["spread", "default"], 24);
        let (spread, default) = (of[0], of[1]);
        let reached = change(base.mean_completion_s, default.mean_completion_s);
        let shortened = change(base.makespan_s, default.makespan_s);
        assert!(reached <= completion && shortened <= makespan, "{scenario}: {reached} {shortened}");
        assert!(default.mean_completion_s <= spread.mean_completion_s, "{scenario}: {default:?}, spread {spread:?}");
    }
}

/// As in the demo, nodes decide every 2 s, and a move costs 5 s. With the first guesses of the nodes as forecasts, long jobs shared a node
/// and were moved away again: -23.7 %, with 2.1 moves. With the best node for each job, arrivals that are still to come included, placement
/// would gain two points more.
#[test]
fn the_trainings_of_the_demo_gain_almost_as_much_as_if_the_work_of_each_were_known() {
    let settings = PolicySettings { interval: Millis::from_secs(2), ..PolicySettings::default() };
    let of = |scenario: &str| {
        let (base, of) = compare_with(&settings, 5.0, scenario, &["spread", "default"], 24);
        let [spread, default] = [of[0], of[1]].map(|summary| change(base.mean_completion_s, summary.mean_completion_s));
        assert!(default <= spread - 0.035, "{scenario}: {default}, spread placement {spread}");
        (default, of[1].moves)
    };
    let ((default, moves), (known, _)) = (of("demo-12x3"), of("demo-12x3-seen"));
    assert!(
        default <= -0.24 && default <= known + 0.03 && moves <= 1.0,
        "{default} with {moves} moves, known: {known}"
    );
}

#[test]
fn with_weak_forecasts_the_default_is_not_worse_than_spread_placement() {
    for ending in ["-unknown", "-mixed", "-threads", "-io", "-lying", "-half-silent"] {
        let (_, of) = compare_policies(&format!("procon-30x4{ending}"), &["spread", "default"], 6);
        let worse = change(of[0].mean_completion_s, of[1].mean_completion_s);
        assert!(worse <= 0.02, "{ending}: {worse}");
    }
}

#[test]
fn scaling_helps_if_resources_are_reserved() {
    for (scenario, completion) in [("dragon-1", -0.3), ("dragon-2", -0.5)] {
        let (base, of) = compare_policies(scenario, &["dragon", "default"], 4);
        let reached = change(base.mean_completion_s, of[1].mean_completion_s);
        assert!(reached <= completion && of[1].mean_completion_s < of[0].mean_completion_s, "{scenario}: {reached}");
    }
}

/// A thousand jobs on a hundred nodes for a day: every plan is checked during the run.
#[test]
fn a_hundred_nodes_run_for_a_day() {
    let scenario = ClusterScenario::open("scale-10000", Some(100)).unwrap();
    let default = ClusterVariant::named("default", &PolicySettings::default()).unwrap();
    let comparison = compare(&scenario, &[default], UNSEEN, 1, 10.0).unwrap();
    let reached = change(comparison.base.mean_completion_s, comparison.policies[0].1.mean_completion_s);
    assert!(reached < 0.0, "{reached}");
}

fn flowsim(arguments: &[&str]) -> std::process::Output {
    Command::cargo_bin("flowsim").unwrap().arg("cluster").args(arguments).output().unwrap()
}

#[test]
fn the_json_has_the_documented_keys_and_is_reproducible() {
    let policies = "swarm,procon-plain,specon-plain,dragon,spread,procon,specon,default,oasis";
    let arguments = ["procon-20x4", "--policy", policies, "--seeds", "2", "--json"];
    let output = flowsim(&arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(flowsim(&arguments).stdout, output.stdout);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((result["nodes"].as_u64(), result["seeds"].as_u64()), (Some(4), Some(2)));
    for policy in policies.split(',') {
        let figures = result["policies"][policy].as_object().unwrap();
        let keys = ["makespan_s", "mean_completion_s", "mean_t95_s", "moves", "worst_vs_base"];
        assert_eq!(figures.keys().collect::<Vec<_>>(), keys, "{policy}");
        assert!(keys.iter().all(|key| figures[*key].is_number()), "{policy}: {figures:?}");
    }
    assert_eq!(result["policies"]["swarm"]["worst_vs_base"].as_f64(), Some(0.0));
}

#[test]
fn a_scenario_file_runs_on_the_given_number_of_nodes() {
    let output =
        flowsim(&["config/scenarios/example.toml", "--nodes", "3", "--policy", "swarm,default", "--seeds", "2"]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.starts_with("example, 3 nodes, means over 2 seeds") && table.contains("default"), "{table}");
}

#[test]
fn error_messages_list_the_valid_values() {
    let stderr_of = |arguments: &[&str]| {
        let output = flowsim(arguments);
        assert!(!output.status.success() && output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(stderr_of(&["procon-99x9"]).contains("expected one of procon-20x4, "));
    assert!(stderr_of(&["procon-20x4-sideways"]).contains("unknown suffix `-sideways`"));
    assert!(stderr_of(&["procon-20x4", "--policy", "best"]).contains("unknown policy `best`; expected one of swarm"));
    assert!(stderr_of(&["dragon-3", "--set", "node.cores=2"]).contains("can never start"));
}

#[test]
fn a_jobs_stays_have_no_gaps_except_its_moves() {
    let scenario = ClusterScenario::open("procon-20x4", None).unwrap();
    let variant = ClusterVariant::named("default", &PolicySettings::default()).unwrap();
    let costs = Costs::default();
    let (mut seen, mut begun) = (0, 0);
    for seed in UNSEEN..UNSEEN + 4 {
        let submissions = scenario.draw(seed);
        let run = simulate(scenario.nodes, scenario.node, &submissions, &variant, costs, seed).unwrap();
        begun += run.moves;
        for (job, (submission, completion)) in submissions.iter().zip(&run.completions_s).enumerate() {
            let stays: Vec<_> = run.stays.iter().filter(|stay| stay.job == job).collect();
            let start = submission.job.plan.start_s;
            assert!(stays[0].span_s.0 >= start, "{stays:?}");
            assert!((stays[stays.len() - 1].span_s.1 - start - completion).abs() < 1e-3, "{stays:?} {completion}");
            for pair in stays.windows(2) {
                let gap = pair[1].span_s.0 - pair[0].span_s.1;
                assert!(pair[0].node != pair[1].node && (gap - costs.move_s).abs() < 1e-3, "{stays:?}");
                seen += 1;
            }
        }
    }
    assert!(seen > 0 && seen == begun, "{seen} of {begun}");
}

#[test]
fn the_report_shows_every_node_without_scripts_or_network() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let mut command = Command::cargo_bin("flowsim").unwrap();
    command.args(["cluster", "procon-20x4", "--policy", "swarm,default", "--seeds", "1", "--report"]).arg(&page);
    command.assert().success();
    let html = std::fs::read_to_string(page).unwrap();
    assert!(!html.contains("<script") && !html.contains("http://") && !html.contains("https://"));
    for text in ["mean completion, s", ">node 1<", ">node 4<", "A bar is a job on a node"] {
        assert_eq!(html.matches(text).count(), if text.starts_with("mean") { 1 } else { 2 }, "{text}");
    }
    assert!(html.matches("<rect class=\"bar").count() >= 2 * 20);
}
