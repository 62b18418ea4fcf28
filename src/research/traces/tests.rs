//! Small traces whose results are computed by hand.

use super::*;

const TRACE: &str = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n\
    0,1,0,1,vgg,100,1\n\
    1,2,10,1,vgg,50,1\n\
    2,1,20,1,vgg,30,1\n";

fn ends(trace: &str, gpus: &str, discipline: &str) -> Vec<(u64, u64)> {
    spans(trace, gpus, discipline, 0)
}

fn spans(trace: &str, gpus: &str, discipline: &str, restart_cost_s: u64) -> Vec<(u64, u64)> {
    let gpus: Gpus = gpus.parse().unwrap();
    let jobs = read("trace.csv", trace, &gpus, None).unwrap();
    let outcome = run(&jobs, &gpus, discipline.parse().unwrap(), restart_cost_s);
    outcome.spans.iter().map(|span| (span.start_s, span.end_s)).collect()
}

#[test]
fn under_fifo_the_head_of_the_queue_blocks_the_others() {
    // The two-GPU job waits for job 0 to end at 100 and blocks job 2, although one GPU is free.
    assert_eq!(ends(TRACE, "2", "fifo"), [(0, 100), (100, 150), (150, 180)]);
}

#[test]
fn under_fjf_the_first_job_that_fits_does_not_wait_for_the_head() {
    assert_eq!(ends(TRACE, "2", "fjf"), [(0, 100), (100, 150), (20, 50)]);
}

#[test]
fn shortest_preempts_the_longer_job() {
    // At 10 s: 50 s against 90 s left, so job 1 takes both GPUs. At 20 s job 2 (30 s) is shorter than job 1 (40 s): it takes one GPU, job 1
    // no longer fits, and job 0 runs beside it. At 50 s job 1 (40 s) precedes job 0 (60 s): job 1 runs to 90 s, job 0 to 150 s.
    assert_eq!(ends(TRACE, "2", "shortest"), [(0, 150), (10, 90), (20, 50)]);
    assert_eq!(ends(TRACE, "2", "srpt"), ends(TRACE, "2", "shortest"));
}

#[test]
fn shortest_by_gpu_multiplies_the_time_by_the_gpus() {
    // At 10 s: 90 GPU-seconds against 100, so job 0 keeps its GPU and job 1 waits until 100 s.
    assert_eq!(ends(TRACE, "2", "shortest-gpu"), [(0, 100), (100, 150), (20, 50)]);
}

const LONG: &str = "job_id,submit_s,num_gpus,duration_s,vc\na,0,1,4000,x\nb,1000,1,500,x\n";

#[test]
fn least_attained_service_runs_a_new_job_after_the_demotion_of_the_old_one() {
    // a is demoted at 3250 s; then b, in the first queue, runs first and ends at 3750 s; a needs 750 s more.
    assert_eq!(ends(LONG, "1", "dlas"), [(0, 4500), (3250, 3750)]);
    assert_eq!(ends(LONG, "1", "las"), ends(LONG, "1", "dlas-gpu"));
}

#[test]
fn the_demotion_of_a_job_on_several_gpus_is_late_as_in_the_original() {
    // a on two GPUs has 3250 GPU-s at 1625 s. At b's arrival the next check moves to 100 + floor((3250 − 100) / 2) = 1675.
    let soon = "job_id,submit_s,num_gpus,duration_s,vc\na,0,2,4000,x\nb,100,2,500,x\n";
    assert_eq!(ends(soon, "2", "dlas-gpu"), [(0, 4500), (1675, 2175)]);
    // With b's arrival at 1000 s it moves to 1000 + floor((3250 − 1000) / 2) = 2125: later still.
    let late = "job_id,submit_s,num_gpus,duration_s,vc\na,0,2,4000,x\nb,1000,2,500,x\n";
    assert_eq!(ends(late, "2", "dlas-gpu"), [(0, 4500), (2125, 2625)]);
}

#[test]
fn a_restart_takes_the_configured_time() {
    assert_eq!(spans(LONG, "1", "dlas", 30), [(0, 4530), (3250, 3750)]);
}

#[test]
fn a_job_that_fits_one_node_is_not_split() {
    let trace = "job_id,submit_s,num_gpus,duration_s\n0,0,3,10\n1,0,3,10\n2,0,2,10\n3,0,6,10\n";
    // In one pool of 8 the third job runs beside the first two; on two nodes of 4 it has one free GPU on each and waits.
    assert_eq!(ends(trace, "8", "fjf")[2], (0, 10));
    // The last job needs a whole node and two more GPUs: it shares the other node with the third.
    assert_eq!(ends(trace, "2x4", "fjf")[2..], [(10, 20), (10, 20)]);
}

#[test]
fn an_error_in_a_trace_names_line_column_and_what_is_expected() {
    let broken = |text: &str| read("t.csv", text, &"8".parse().unwrap(), None).unwrap_err();
    let header = "job_id,submit_s,num_gpus,duration_s\n";
    assert_eq!(broken(&format!("{header}1,0,9,5\n")), "t.csv:2:5: num_gpus = `9`: the cluster has 8; expected no more");
    assert_eq!(
        broken(&format!("{header}1,0,1,5\n2,-3,1,5\n")),
        "t.csv:3:3: submit_s = `-3`: expected a whole number from 0 to 1000000000000"
    );
    assert_eq!(
        broken(&format!("{header}1,0,1,0\n")),
        "t.csv:2:7: duration_s = `0`: expected a whole number from 1 to 1000000000000"
    );
    assert!(broken("job_id,num_gpus\n").contains("no column `submit_s` or `submit_time` or `arrival_s`"));
    assert!(broken(&format!("{header}1,0,1,{}\n", u64::MAX)).contains("t.csv:2:7: duration_s"));
    assert!(broken("").contains("t.csv:1:1: the file is empty"));
}

#[test]
fn simultaneous_completions_precede_arrivals_and_the_scheduling_pass() {
    let trace = "job_id,submit_s,num_gpus,duration_s\n0,0,1,10\n1,10,1,5\n2,10,1,3\n";
    assert_eq!(ends(trace, "1", "shortest"), [(0, 10), (13, 18), (10, 13)]);
}

const SPEEDS: &str = "worker_type,model,num_gpus,steps_per_s\nv100,vgg,1,10\nk80,vgg,1,2\nk80,lm,1,3\nv100,lm,1,0\n";

fn typed(trace: &str, gpus: &str, discipline: &str, restart_cost_s: u64) -> Result<Vec<(u64, u64)>, String> {
    let gpus: Gpus = gpus.parse()?;
    let speeds = Speeds::parse("speeds.csv", SPEEDS)?;
    speeds.check(&gpus)?;
    let jobs = read("trace.csv", trace, &gpus, Some(&speeds))?;
    let outcome = run(&jobs, &gpus, discipline.parse()?, restart_cost_s);
    Ok(outcome.spans.iter().map(|span| (span.start_s, span.end_s)).collect())
}

#[test]
fn a_job_gets_the_fastest_type_with_free_gpus_and_preemptive_policies_move_it_up() {
    let trace = "job_id,arrival_s,num_gpus,model,total_steps\n0,0,1,vgg,100\n1,0.0,1,vgg,100\n";
    // 10 s on the V100, 50 s on the K80.
    assert_eq!(typed(trace, "1:v100,1:k80", "fifo", 0).unwrap(), [(0, 10), (0, 50)]);
    // At 10 s the second job has done a fifth; the other four fifths take 8 s on the V100.
    assert_eq!(typed(trace, "1:v100,1:k80", "srpt", 0).unwrap(), [(0, 10), (0, 18)]);
    assert_eq!(typed(trace, "1:v100,1:k80", "srpt", 2).unwrap(), [(0, 10), (0, 20)]);
}

#[test]
fn a_job_waits_for_the_type_on_which_it_can_run() {
    let trace = "job_id,arrival_s,num_gpus,model,total_steps\n0,0,1,lm,30\n1,0,1,lm,30\n";
    assert_eq!(typed(trace, "1:v100,1:k80", "fifo", 0).unwrap(), [(0, 10), (10, 20)]);
}

#[test]
fn an_error_in_a_table_of_speeds_names_the_position_and_the_next_step() {
    let trace = "job_id,arrival_s,num_gpus,model,total_steps\n0,0,1,lm,30\n";
    let error = typed(trace, "1:v100", "fifo", 0).unwrap_err();
    assert_eq!(
        error,
        "trace.csv:2:5: num_gpus = `1`: no speed for this job with that number of GPUs on any type; add one to the table of speeds"
    );
    let error = typed(trace, "4x2:t4", "fifo", 0).unwrap_err();
    assert_eq!(error, "--gpus 4x2:t4: speeds.csv has no speeds for `t4`; expected one of k80, v100");
    assert!(typed(trace, "4x2", "fifo", 0).unwrap_err().contains("each group needs a type"));
    assert!(
        typed("job_id,arrival_s,num_gpus,model\n0,0,1,lm\n", "1:k80", "fifo", 0)
            .unwrap_err()
            .contains("no column `total_steps`")
    );
    let error = Speeds::parse("s.csv", "gpu_type,model,num_gpus,exec_time_s\nk80,vgg,1,-3\n").unwrap_err();
    assert_eq!(error, "s.csv:2:11: exec_time_s = `-3`: expected a number that is not negative");
}

#[test]
fn a_cluster_description_is_displayed_as_it_was_parsed() {
    for text in ["64", "64x8", "16x4:v100,32x8:k80", "2:a100,8"] {
        assert_eq!(text.parse::<Gpus>().unwrap().to_string(), text);
    }
    for text in ["", "0", "8x", "4:", "x4", "1000001", "600000,600000"] {
        assert!(text.parse::<Gpus>().is_err(), "{text}");
    }
}
