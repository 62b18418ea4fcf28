//! Tests of `flowsim deadlines` with handmade instances: hand-computed baselines, the format of the output, error messages, and the
//! ranking of the policies on a random instance.

use assert_cmd::Command;
use deadlines::{Instance, Solver, Tables, read, simulate};
use flowcon::policy::cluster::deadlines::LearnedTime;
use serde_json::Value;
use std::fs;

/// One type of GPU: 3.6 per hour, so 0.001 per second, for one GPU; two cost slightly less than twice as much.
const PRICES: &str = "VMtype,GPUtype,nGPUs,cost\nsmall,G,1,3.6\nlarge,G,2,7.0\n";

/// Class A takes 100 s on one GPU, 60 s on two; class B 40 s and 30 s.
const TIMES: &str = "job_class,gpu_type,num_gpus,exec_time_s\nA,G,1,100\nA,G,2,60\nB,G,1,40\nB,G,2,30\n";

/// All jobs compete for one node: the first takes one GPU, the others arrive while it runs.
const JOBS: &str = "instance,job_id,job_class,submit_s,deadline_s,tardiness_weight\n\
    1-1-4-hand,first,A,0,200,1\n\
    1-1-4-hand,second,A,10,300,2\n\
    1-1-4-hand,third,B,20,150,3\n\
    1-1-4-hand,fourth,B,30,145,1\n";

fn instances(jobs: &str, times: &str, prices: &str) -> Vec<Instance> {
    read(&Tables {
        jobs: ("jobs", jobs),
        times: ("times", times),
        learned: &[],
        prices: ("prices", prices),
        gpu_types: &[],
        nodes: None,
    })
    .unwrap()
}

fn solver(policy: &str) -> Solver {
    Solver { policy: policy.parse().unwrap(), constructions: 200, controllers: 2, seed: 1, threads: 1 }
}

/// VM cost, tardiness cost, late jobs and end times on the handmade instance.
fn by_hand(policy: &str, restart_s: f64) -> (f64, f64, usize, Vec<f64>) {
    let instance = &instances(JOBS, TIMES, PRICES)[0];
    let outcome = simulate(instance, &solver(policy), restart_s).unwrap();
    (outcome.vm_cost, outcome.tardiness_cost, outcome.late_jobs, outcome.ends_s)
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-6
}

#[test]
fn first_come_first_served_matches_the_calculation_by_hand() {
    // 0–100 first on one GPU; 100–200 second on one (200 < 300); 200–230 third, already late, so on two GPUs; 230–260 fourth.
    let (vm, tardiness, late, ends) = by_hand("fifo", 0.0);
    assert_eq!(ends, [100.0, 200.0, 230.0, 260.0]);
    assert!(
        near(vm, 0.2 + 60.0 * 7.0 / 3600.0) && near(tardiness, 3.0 * 80.0 + 115.0) && late == 2,
        "{vm} {tardiness} {late}"
    );
}

#[test]
fn earliest_deadline_first_matches_the_calculation_by_hand() {
    // 100: the fourth (145) is first and ends at 140 on one GPU; then the third (150) is late in any case: two GPUs until 170; then the
    // second on one GPU until 270, before its deadline of 300.
    let (vm, tardiness, late, ends) = by_hand("edf", 0.0);
    assert_eq!(ends, [100.0, 270.0, 170.0, 140.0]);
    assert!(
        near(vm, 0.24 + 30.0 * 7.0 / 3600.0) && near(tardiness, 3.0 * 20.0) && late == 1,
        "{vm} {tardiness} {late}"
    );
}

#[test]
fn priority_matches_the_calculation_by_hand() {
    // 100: the third (weight 3) until 140; the second (2) on one GPU until 240; the fourth is late: two GPUs until 270.
    let (vm, tardiness, late, ends) = by_hand("priority", 0.0);
    assert_eq!(ends, [100.0, 240.0, 140.0, 270.0]);
    assert!(near(vm, 0.24 + 30.0 * 7.0 / 3600.0) && near(tardiness, 125.0) && late == 1, "{vm} {tardiness} {late}");
}

#[test]
fn packed_earliest_deadline_first_shares_the_node() {
    // The second starts at 10 on the second GPU; at 100 the fourth takes the free GPU until 140, at 110 the third takes the other until
    // 150.
    let (vm, tardiness, late, ends) = by_hand("edf-packed", 0.0);
    assert_eq!(ends, [100.0, 110.0, 150.0, 140.0]);
    let both_s = 90.0 + 10.0 + 30.0;
    assert!(
        near(vm, both_s * 7.0 / 3600.0 + 20.0 * 0.001) && near(tardiness, 0.0) && late == 0,
        "{vm} {tardiness} {late}"
    );
}

#[test]
fn a_job_that_never_moves_has_no_restart_cost() {
    assert_eq!(by_hand("edf", 0.0), by_hand("edf", 50.0));
}

#[test]
fn a_restart_takes_the_configured_time() {
    // The first job runs on one GPU until a job with a near deadline needs both: it is stopped and pays for the restart.
    let jobs = "job_id,job_class,submit_s,deadline_s,tardiness_weight\nslow,A,0,1000,0.001\nurgent,B,20,50,100\n";
    let tables = Tables {
        jobs: ("jobs", jobs),
        times: ("times", TIMES),
        learned: &[],
        prices: ("prices", PRICES),
        gpu_types: &[],
        nodes: Some(1),
    };
    let instance = &read(&tables).unwrap()[0];
    let run = |restart_s: f64| simulate(instance, &solver("exact"), restart_s).unwrap();
    let (free, dear) = (run(0.0), run(15.0));
    assert_eq!((free.restarts, dear.restarts, free.late_jobs, dear.late_jobs), (1, 1, 0, 0));
    assert!(
        near(dear.ends_s[1], 50.0) && near(dear.ends_s[0], free.ends_s[0] + 15.0),
        "{:?} {:?}",
        free.ends_s,
        dear.ends_s
    );
}

#[test]
fn an_event_takes_at_most_one_arrival_and_time_skips_gaps() {
    let jobs = "job_id,job_class,submit_s,deadline_s,tardiness_weight\na,B,0,1e6,1\nb,B,0,1e6,1\nc,B,5000,1e6,1\n";
    let tables = Tables {
        jobs: ("jobs", jobs),
        times: ("times", TIMES),
        learned: &[],
        prices: ("prices", PRICES),
        gpu_types: &[],
        nodes: Some(2),
    };
    let outcome = simulate(&read(&tables).unwrap()[0], &solver("fifo"), 0.0).unwrap();
    assert_eq!((outcome.ends_s, outcome.steps), (vec![40.0, 40.0, 5040.0], 3));
    assert!(near(outcome.vm_cost, 0.12));
}

/// A pseudo-random instance with a load near one: classes, deadlines and gaps from a fixed sequence.
fn random_instance(name: &str, nodes: usize, gap_s: f64) -> [String; 3] {
    let mut state = 88_172_645_463_325_252_u64;
    let mut uniform = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut prices = String::from("VMtype,GPUtype,nGPUs,cost\n");
    for (kind, price) in [("G", 0.5), ("H", 0.7)] {
        for gpus in [1, 2, 4] {
            prices += &format!("{kind}{gpus},{kind},{gpus},{}\n", price * f64::from(gpus));
        }
    }
    let mut times = String::from("job_class,gpu_type,num_gpus,exec_time_s\n");
    let mut fastest = Vec::new();
    for class in 0..6 {
        let (one, power) = (20_000.0 + 60_000.0 * uniform(), 0.2 + 0.5 * uniform());
        for gpus in 1..=4 {
            let time = one / f64::from(gpus).powf(power);
            times += &format!("C{class},G,{gpus},{time}\nC{class},H,{gpus},{}\n", 0.8 * time);
        }
        fastest.push(0.8 * one / 4_f64.powf(power));
    }
    let mut jobs = String::from("instance,job_id,job_class,submit_s,deadline_s,tardiness_weight\n");
    let mut submit = 0.0;
    for job in 0..nodes * 8 {
        let class = (uniform() * 6.0) as usize;
        let deadline = submit + fastest[class] * (1.05 + 1.5 * uniform());
        jobs += &format!("1-{nodes}-{name},{job},C{class},{submit},{deadline},{}\n", 0.005 + 0.01 * uniform());
        submit += 2.0 * gap_s * uniform() / nodes as f64;
    }
    [jobs, times, prices]
}

fn cost(instance: &Instance, policy: &str) -> f64 {
    let outcome = simulate(instance, &solver(policy), 0.0).unwrap();
    outcome.vm_cost + outcome.tardiness_cost
}

#[test]
fn under_load_sharing_and_a_price_for_scarce_gpus_reduce_the_cost() {
    let [jobs, times, prices] = random_instance("busy", 3, 11_000.0);
    let instance = &instances(&jobs, &times, &prices)[0];
    let bound = instance.lower_bound();
    let costs = ["greedy", "random", "local", "edf-packed", "edf", "fifo"].map(|policy| cost(instance, policy));
    assert!(costs.iter().all(|cost| *cost >= bound), "{costs:?}, bound {bound}");
    let [greedy, random, local, packed, edf, fifo] = costs;
    assert!(greedy < packed && random < packed && local < packed, "{costs:?}");
    assert!(packed < edf && edf < fifo, "{costs:?}");
    assert!(greedy < cost(instance, "greedy-thesis"));
}

#[test]
fn on_small_instances_heuristics_are_within_five_percent_of_the_exact_solution() {
    let (mut local, mut random, mut exact) = (0.0, 0.0, 0.0);
    for gap_s in [15_000.0, 20_000.0, 30_000.0, 60_000.0] {
        let [jobs, times, prices] = random_instance("small", 2, gap_s);
        let instance = &instances(&jobs, &times, &prices)[0];
        local += cost(instance, "local") / 4.0;
        random += cost(instance, "random") / 4.0;
        exact += cost(instance, "exact") / 4.0;
    }
    assert!(local <= 1.05 * exact && random <= 1.05 * exact, "local {local}, random {random}, exact {exact}");
}

#[test]
fn decisions_do_not_depend_on_the_number_of_threads() {
    let [jobs, times, prices] = random_instance("threads", 4, 10_000.0);
    let instance = &instances(&jobs, &times, &prices)[0];
    let run = |threads: usize| {
        let solver = Solver { constructions: 4_000, threads, ..solver("random") };
        let outcome = simulate(instance, &solver, 0.0).unwrap();
        (outcome.ends_s, outcome.vm_cost)
    };
    assert_eq!(run(1), run(3));
}

fn flowsim(folder: &std::path::Path, arguments: &[&str]) -> std::process::Output {
    Command::cargo_bin("flowsim").unwrap().current_dir(folder).arg("deadlines").args(arguments).output().unwrap()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("jobs.csv", JOBS), ("exec_times.csv", TIMES), ("vm_costs.csv", PRICES)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn the_json_has_the_documented_keys_for_each_policy() {
    let folder = folder();
    let policies = "greedy,random,local,hierarchical,fifo,edf,edf-packed,priority";
    let arguments = ["jobs.csv", "--gpu-types", "all", "--constructions", "20", "--policy", policies, "--json"];
    let output = flowsim(folder.path(), &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result.as_object().unwrap().keys().collect::<Vec<_>>(), ["policies"]);
    let keys = ["cost", "late_jobs", "ms_a_step", "tardiness_cost", "vm_cost"];
    for policy in policies.split(',') {
        let figures = result["policies"][policy].as_object().unwrap();
        assert_eq!(figures.keys().collect::<Vec<_>>(), keys, "{policy}");
        assert!(keys.iter().all(|key| figures[*key].is_number()), "{policy}: {figures:?}");
    }
    assert!(near(result["policies"]["fifo"]["tardiness_cost"].as_f64().unwrap(), 355.0), "{result}");
}

#[test]
fn the_table_shows_the_load_and_the_lower_bound() {
    let folder = folder();
    let output = flowsim(folder.path(), &["jobs.csv", "--gpu-types", "G", "--policy", "fifo,edf", "--lower-bound"]);
    let text = String::from_utf8(output.stdout).unwrap();
    // The work is 280 GPU-seconds at 7/7200 each; the last job arrives at 30 s and there are two GPUs.
    assert!(text.starts_with("1 instances, 4 jobs, load 4.67 to 4.67, lower bound 0.27;"), "{text}");
    assert!(text.contains("over bound") && text.contains("fifo") && text.contains("355.32"), "{text}");
}

#[test]
fn error_messages_name_the_place_and_the_next_step() {
    let folder = folder();
    let stderr_of = |arguments: &[&str]| {
        let output = flowsim(folder.path(), arguments);
        assert!(!output.status.success() && output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(stderr_of(&["jobs.csv"]).contains("no node with GPUs of type `K80`; see --gpu-types"));
    let all = ["jobs.csv", "--gpu-types", "all"];
    assert!(
        stderr_of(&[&all[..], &["--policy", "best"]].concat())
            .contains("unknown policy `best`; expected one of greedy")
    );
    assert!(
        stderr_of(&[&all[..], &["--instance", "x"]].concat()).contains("no instance `x`; expected one of 1-1-4-hand")
    );
    assert!(stderr_of(&["none.csv", "--gpu-types", "all"]).contains("none.csv: cannot read the jobs"));
    fs::write(folder.path().join("odd.csv"), JOBS.replace("second,A", "second,Z")).unwrap();
    assert!(stderr_of(&["odd.csv", "--gpu-types", "all"]).contains("odd.csv:3:19: job_class = `Z`: no run times"));
    fs::write(folder.path().join("odd.csv"), JOBS.replace("1-1-4-hand", "unnamed")).unwrap();
    assert!(stderr_of(&["odd.csv", "--gpu-types", "all"]).contains("give --nodes"));
    fs::remove_file(folder.path().join("vm_costs.csv")).unwrap();
    assert!(stderr_of(&all).contains("give the file with --prices"));
}

#[test]
fn learned_run_times_fill_gaps_in_the_table() {
    let learned = |class: &str, gpus: usize, seconds: f64| LearnedTime {
        class: class.into(),
        gpu_type: "G".into(),
        gpus,
        seconds,
        runs: 1,
    };
    let read_with = |times: &str, learned: &[LearnedTime]| {
        let tables = Tables {
            jobs: ("jobs", JOBS),
            times: ("times", times),
            learned,
            prices: ("prices", PRICES),
            gpu_types: &[],
            nodes: None,
        };
        read(&tables)
    };
    let only_a = "job_class,gpu_type,num_gpus,exec_time_s\nA,G,1,100\n";
    assert!(read_with(only_a, &[]).unwrap_err().contains("no run times"), "B is unknown");
    let instance =
        &read_with(only_a, &[learned("A", 1, 7.0), learned("A", 2, 55.0), learned("B", 1, 40.0)]).unwrap()[0];
    let [a, _, b, _] = instance.jobs.as_slice() else { panic!("four jobs") };
    assert_eq!((a.times.seconds(0, 1), a.times.seconds(0, 2)), (Some(100.0), Some(55.0)), "the table has priority");
    assert_eq!((b.times.seconds(0, 1), b.times.seconds(0, 2)), (Some(40.0), None));
}

#[test]
fn a_nodes_history_can_replace_the_table() {
    let folder = folder();
    fs::remove_file(folder.path().join("exec_times.csv")).unwrap();
    let job = |class: &str, seconds: u64| {
        format!(
            "{{\"name\":\"{class}.1.x\",\"started_unix_ms\":0,\"ended_unix_ms\":{},\"exit_code\":0,\"total\":null,\"latest\":null}}",
            1000 * seconds
        )
    };
    fs::write(folder.path().join("node.json"), format!("[{},{}]", job("A", 100), job("B", 40))).unwrap();
    let arguments = ["jobs.csv", "--gpu-types", "G", "--policy", "fifo", "--learned", "G=node.json", "--json"];
    let output = flowsim(folder.path(), &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    // One after the other on one GPU: 280 s at 0.001.
    assert!(near(json["policies"]["fifo"]["vm_cost"].as_f64().unwrap(), 0.28), "{json}");
    let wrong = flowsim(folder.path(), &["jobs.csv", "--learned", "G=jobs.csv"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("flowctl history --since 30d --json"));
}
