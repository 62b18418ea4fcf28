//! Moves of a job between two daemons: the learning record that one sends lets the other continue.

use super::job::Job;
use super::testing::{FakeCgroup, FakeEngine, TestDaemon, id};
use api::{Command, Refusal};
use model::{ContainerId, Learning, Millis, Runtime};
use std::collections::BTreeMap;

const SERVICE: &str = "wp9p2yqmszq0v7ctx4kc3jmrv";

/// Begins a container of the service in a folder, with this much CPU used.
fn begin(daemon: &mut TestDaemon, number: u8, folder: &FakeCgroup, cpu_s: u64, labels: &[(&str, &str)]) -> ContainerId {
    folder.put("cpu.stat", &format!("usage_usec {}\n", cpu_s * 1_000_000));
    let mut target = folder.target(id(number), "train.1", Runtime::Docker);
    target.started_unix_ms = u64::MAX; // after the daemon
    let labels: BTreeMap<String, String> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let mut job = Job::new(target, None, &labels);
    job.service = Some(SERVICE.into());
    daemon.governing.begin(Ok((job, None)), &id(number));
    id(number)
}

fn print(daemon: &mut TestDaemon, id: &ContainerId, epochs: std::ops::RangeInclusive<u32>) {
    let job = daemon.governing.jobs.get_mut(id).expect("it is governed");
    for epoch in epochs {
        let line = format!("epoch {epoch}/100 loss {:.4}\n", 1.0 / f64::from(epoch));
        job.tracker.push(line.as_bytes(), node::now());
    }
}

/// Runs a tick. Returns what is known of a job's learning, and its CPU-seconds to the end and per unit.
fn ticked(daemon: &mut TestDaemon, id: &ContainerId) -> (Learning, Option<(f64, f64)>) {
    let observed = daemon.governing.observed(node::now(), true);
    daemon.governing.governor.tick(&observed);
    daemon.governing.publish();
    let seen = observed.containers.into_iter().find(|seen| seen.id == *id).expect("it is governed");
    let forecast = daemon.governing.governor.forecast(id);
    (seen.learning, forecast.map(|forecast| (forecast.to_end.likely, forecast.per_unit)))
}

async fn record_of_service(daemon: &mut TestDaemon) -> Result<String, Refusal> {
    daemon.ask(Command::Record { service: SERVICE.to_owned() }).await
}

async fn expect(daemon: &mut TestDaemon, record: &str) -> Result<String, Refusal> {
    daemon.ask(Command::Expect { service: SERVICE.to_owned(), record: record.to_owned() }).await
}

/// Returns the record of a job that has done 40 of 100 units, each for 2 CPU-seconds, and has ended.
async fn moved_away(source: &mut TestDaemon, folder: &FakeCgroup) -> String {
    let job = begin(source, 1, folder, 10, &[]);
    assert!(matches!(record_of_service(source).await, Err(Refusal::NotFound(_))), "it has printed nothing");
    for ten in 0..4 {
        // Counters are not read again within FRESH.
        tokio::time::sleep(std::time::Duration::from_millis(60)).await;
        folder.put("cpu.stat", &format!("usage_usec {}\n", (10 + 20 * ten) * 1_000_000));
        print(source, &job, 10 * ten + 1..=10 * ten + 10);
        ticked(source, &job);
    }
    let running = record_of_service(source).await.expect("it runs");
    source.governing.end(&job, Some(143));
    assert!(record_of_service(source).await.is_ok(), "its log is read to the end");
    source.governing.learn_from_drained(node::now().after(Millis::from_secs(60)));
    let ended = record_of_service(source).await.expect("it has just ended");
    assert!(running.contains("\"evaluations\":40") && ended.contains("\"evaluations\":40"), "{ended}");
    ended
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_job_is_ranked_by_the_other_nodes_record_before_it_prints_anything() {
    let engine = FakeEngine::start(|_, _| Some((200, "{}".to_owned())));
    let (mut source, mut target, folders) = (
        TestDaemon::new(Some(&engine)),
        TestDaemon::new(Some(&engine)),
        [FakeCgroup::new(), FakeCgroup::new(), FakeCgroup::new()],
    );
    let record = moved_away(&mut source, &folders[0]).await;
    let kept = expect(&mut target, &record).await.expect("it fits");
    assert!(kept.contains(SERVICE), "{kept}");
    assert_eq!(record_of_service(&mut target).await.as_ref(), Ok(&record), "it may move on to a third node");

    let job = begin(&mut target, 2, &folders[1], 1, &[]);
    let (learning, forecast) = ticked(&mut target, &job);
    assert!(learning.is_carried && learning.curve.is_some());
    assert_eq!((learning.evaluations, learning.metric.as_deref()), (40, Some("loss")));
    let (to_end, per_unit) = forecast.expect("it is ranked");
    assert!(
        (1.5..2.5).contains(&per_unit) && (55.0 * per_unit..65.0 * per_unit).contains(&to_end),
        "{to_end} {per_unit}"
    );
    let again = record_of_service(&mut target).await.expect("it may move on before it prints anything");
    assert!(again.contains("\"evaluations\":40") && again.contains("\"is_carried\":true"), "{again}");

    print(&mut target, &job, 41..=41);
    let (learning, forecast) = ticked(&mut target, &job);
    assert_eq!((learning.evaluations, learning.is_carried), (41, false));
    assert!(
        forecast.is_some_and(|(_, per_unit)| (1.5..2.5).contains(&per_unit)),
        "the first line yields no cost per unit"
    );
    assert!(matches!(expect(&mut target, &record).await, Err(Refusal::Refused(_))), "it runs here");

    target.governing.end(&job, None);
    let other = begin(&mut target, 3, &folders[2], 1, &[]);
    assert_eq!(ticked(&mut target, &other).0.evaluations, 0, "a record is used once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_record_does_not_fit_starts_anew() {
    let engine = FakeEngine::start(|_, _| Some((200, "{}".to_owned())));
    let (mut source, mut target, folders) =
        (TestDaemon::new(Some(&engine)), TestDaemon::new(Some(&engine)), [FakeCgroup::new(), FakeCgroup::new()]);
    let record = moved_away(&mut source, &folders[0]).await;
    for nonsense in ["{}", "", &record.replacen("\"version\":1", "\"version\":7", 1), &record[..record.len() / 2]] {
        assert!(matches!(expect(&mut target, nonsense).await, Err(Refusal::Invalid(_))), "{nonsense}");
    }
    expect(&mut target, &record).await.expect("it may fit");
    let job = begin(&mut target, 2, &folders[1], 1, &[("flowcon.metric", "accuracy")]);
    let (learning, _) = ticked(&mut target, &job);
    assert_eq!((learning.evaluations, learning.progress, learning.is_carried), (0, None, false));
}
