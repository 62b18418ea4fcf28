//! What the policy is told about the work of jobs that have no forecast.

use super::*;

/// A job with one worker that runs `command`.
fn running(name: &str, command: &str) -> SwarmService {
    let command = command.split(' ').map(Into::into).collect();
    SwarmService { command, ..service(name, &[(QUEUE, "true"), (CHECKPOINT, OWN)]) }
}

/// Returns the work of each job as observed now, by name.
fn works(bench: &mut Bench) -> BTreeMap<String, Option<f64>> {
    let at = At { now: Millis(bench.at), unix: Millis(1_700_000_000_000 + bench.at) };
    let jobs = bench.machine.observe(at).observation.jobs;
    jobs.iter().map(|job| (job.name.to_string(), job.work)).collect()
}

fn work(bench: &mut Bench, job: &str) -> Option<f64> {
    works(bench).remove(job).expect("an observed job")
}

#[test]
fn a_job_of_a_program_that_has_run_before_has_known_work() {
    let mut bench = Bench::with(vec![running("first", "image train --epochs 10 --seed 1")]);
    bench.passes(30);
    assert_eq!(bench.state("first"), JobState::Running);
    assert_eq!(work(&mut bench, "first"), None, "nothing is known of this program");
    bench.swarm.services.push(running("second", "image train --epochs 25 --seed 2"));
    bench.swarm.services.push(running("other", "image test --epochs 25 --seed 2"));
    bench.passes(30);
    assert_eq!(work(&mut bench, "second"), None, "its node has no forecast of the first");
    bench.swarm.tasks[0].state = TaskState::Complete;
    bench.swarm.tasks[0].is_wanted = false;
    bench.passes(30);
    assert_eq!(bench.state("first"), JobState::Done);
    assert_eq!(work(&mut bench, "second"), Some(10.0), "10 epochs took 4 CPU-seconds");
    assert_eq!(work(&mut bench, "other"), None);
    bench.machine = Machine::new(CoordinatorSettings::default());
    bench.passes(30);
    assert_eq!(work(&mut bench, "second"), Some(10.0), "another coordinator reads it from the label");
    bench.swarm.services.remove(0);
    bench.passes(30);
    assert_eq!(work(&mut bench, "second"), Some(10.0), "also once the ended service is removed");
}

#[test]
fn a_failed_job_says_nothing_about_others() {
    let mut bench = Bench::with(vec![running("first", "image train"), running("second", "image train")]);
    bench.passes(30);
    bench.swarm.tasks[0].state = TaskState::Failed;
    (bench.swarm.tasks[0].exit_code, bench.swarm.tasks[0].is_wanted) = (Some(1), false);
    bench.passes(60);
    assert_eq!(works(&mut bench).remove("second"), Some(None));
}

#[test]
fn the_work_of_a_gang_is_that_of_all_its_workers() {
    let mut bench = Bench::with(vec![running("first", "image train --rank 0")]);
    bench.passes(30);
    bench.swarm.tasks[0].state = TaskState::Complete;
    bench.swarm.tasks[0].is_wanted = false;
    bench.passes(30);
    for rank in 0..2 {
        let mut worker = running(&format!("worker-{rank}"), &format!("image train --rank {rank}"));
        worker.labels.insert(labels::GANG.into(), "gang".into());
        bench.swarm.services.push(worker);
    }
    bench.passes(30);
    assert_eq!(work(&mut bench, "gang"), Some(8.0));
}
