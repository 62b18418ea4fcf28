//! Tests of the engine's watcher, updates and logs with a real dockerd, and with fake engines that send invalid replies.

use crate::support::engine::{Engine, Options, RunSpec};
use crate::support::proxy::Proxy;
use flowcon::host::docker::{
    Conversion, EndSign, Engine as Client, EngineAddress, EngineContainer, EngineError, EngineEvent, EngineInfo,
    EngineName, LogFormat, LogPosition, LogSource, Wanted, logs, watch,
};
use flowcon::model::{Bytes, ContainerId, CpuWeight, EngineLimits, Quota, Setting};
use futures_util::StreamExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

const LABEL: &str = "flowcon.enable=true";

fn client(address: &str) -> Client {
    Client::new(EngineAddress::parse(address).unwrap())
}

/// Repeats a call while the engine does not respond in time, as on a busy machine.
async fn in_time<T>(mut call: impl AsyncFnMut() -> Result<T, EngineError>) -> Result<T, EngineError> {
    for _ in 0..4 {
        match call().await {
            Err(EngineError::Timeout { .. }) => {}
            result => return result,
        }
    }
    call().await
}

/// Whether a connection was lost because the engine did not respond in time.
fn is_late(reason: &str) -> bool {
    reason.contains("no response within")
}

/// A running watcher and its events.
struct Watched {
    events: mpsc::Receiver<EngineEvent>,
    began: Instant,
}

const SOON: Duration = Duration::from_secs(60);
/// How often the watcher lists all containers.
const RELIST_EVERY: Duration = Duration::from_secs(30);

impl Watched {
    fn start(address: &str) -> Watched {
        let (sender, events) = mpsc::channel(64);
        tokio::spawn(watch(client(address), Wanted::labelled(LABEL), sender));
        Watched { events, began: Instant::now() }
    }

    /// The next event, also a signal.
    async fn received_within(&mut self, within: Duration) -> EngineEvent {
        let event = timeout(within, self.events.recv()).await.expect("an event in time");
        event.expect("the watcher never ends")
    }

    async fn next_within(&mut self, within: Duration) -> EngineEvent {
        loop {
            // One or two signals precede each end by the engine.
            match self.received_within(within).await {
                EngineEvent::Sign(..) => {}
                event => return event,
            }
        }
    }

    async fn next(&mut self) -> EngineEvent {
        self.next_within(SOON).await
    }

    /// Like [`Watched::next`], but skips the list of each half minute.
    async fn next_change(&mut self) -> EngineEvent {
        loop {
            let event = self.next().await;
            if !self.is_relist(&event) {
                return event;
            }
        }
    }

    /// Like [`Watched::next_change`], for a signal.
    async fn next_signal(&mut self) -> EngineEvent {
        loop {
            let event = self.received_within(SOON).await;
            if !self.is_relist(&event) {
                return event;
            }
        }
    }

    /// Whether this may be the list of each half minute.
    fn is_relist(&self, event: &EngineEvent) -> bool {
        self.began.elapsed() >= RELIST_EVERY && matches!(event, EngineEvent::Listed(_))
    }

    /// Waits for the connection, also after attempts in which the engine was late.
    async fn connected(&mut self) -> EngineInfo {
        loop {
            match self.next().await {
                EngineEvent::Connected(info) => return info,
                EngineEvent::Lost(reason) if is_late(&reason) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    async fn lost(&mut self, within: Duration) -> String {
        loop {
            let event = self.next_within(within).await;
            if self.is_relist(&event) {
                continue;
            }
            match event {
                EngineEvent::Lost(reason) => return reason,
                other => panic!("{other:?}"),
            }
        }
    }

    /// The next list, also that of the next connection if the engine was late.
    async fn listed(&mut self) -> Vec<EngineContainer> {
        loop {
            match self.next().await {
                EngineEvent::Listed(containers) => return containers,
                EngineEvent::Lost(reason) if is_late(&reason) => drop(self.connected().await),
                other => panic!("{other:?}"),
            }
        }
    }

    async fn listed_ids(&mut self) -> Vec<String> {
        self.listed().await.iter().map(|c| c.id.as_str().to_owned()).collect()
    }

    /// The start of a container, after the end of its `earlier` run. A list between a start and its event replaces both events.
    async fn next_start(&mut self, id: &ContainerId, earlier: Option<&EngineContainer>) -> EngineContainer {
        let mut has_ended = earlier.is_none();
        let is_new = |found: &EngineContainer| {
            found.id == *id && earlier.is_none_or(|earlier| found.started_unix_ms > earlier.started_unix_ms)
        };
        loop {
            match self.next().await {
                EngineEvent::Listed(containers) if self.began.elapsed() >= RELIST_EVERY => {
                    if let Some(started) = containers.into_iter().find(is_new) {
                        return started;
                    }
                }
                EngineEvent::Ended(ended, Some(0)) if !has_ended && ended == *id => has_ended = true,
                EngineEvent::Started(started) if has_ended => return started,
                other => panic!("{other:?}"),
            }
        }
    }

    async fn assert_no_event_for(&mut self, duration: Duration) {
        let until = Instant::now() + duration;
        while let Ok(event) = timeout(until.saturating_duration_since(Instant::now()), self.events.recv()).await {
            let event = event.expect("the watcher never ends");
            assert!(self.is_relist(&event), "{event:?}");
        }
    }
}

fn job<'a>(name: &'a str) -> RunSpec<'a> {
    RunSpec { name, labels: &[LABEL], ..RunSpec::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_are_listed_at_the_start_and_followed_until_they_end() {
    let engine = Engine::start();
    let early = engine.run(RunSpec { options: &["--cpu-shares", "777"], ..job("early") });
    engine.run(RunSpec { name: "stranger", ..RunSpec::default() });
    let mut watched = Watched::start(&engine.address());

    let info = watched.connected().await;
    assert_eq!(info.name, EngineName::Docker);
    assert_eq!(info.cgroup_version, if Engine::is_cgroup_v1() { 1 } else { 2 });
    assert_eq!(info.version, engine.docker(&["version", "--format", "{{.Server.Version}}"]));
    let listed = watched.listed().await;
    assert_eq!(listed.len(), 1);
    let found = &listed[0];
    assert_eq!((found.id.as_str(), found.name.as_str()), (early.as_str(), "early"));
    assert_eq!(found.pid, engine.pid_of(&early));
    assert_eq!(
        (found.limits.cpu_shares, found.log_format.tty, found.paused, found.gpu_hook),
        (777, false, false, false)
    );
    assert_eq!(found.labels.get("flowcon.enable").map(String::as_str), Some("true"));
    let LogSource::JsonFile(path) = &found.log else { panic!("{:?}", found.log) };
    assert!(path.exists(), "{}", path.display());

    let id = ContainerId::new(&engine.run(job("late")));
    let started = watched.next_start(&id, None).await;
    assert_eq!((&started.id, started.pid), (&id, engine.pid_of("late")));
    engine.pause("late");
    assert_eq!(watched.next_change().await, EngineEvent::Paused(id.clone(), true));
    assert!(watch_once(&engine).await.iter().any(|c| c.id == id && c.paused), "a paused container is listed as paused");
    engine.docker(&["unpause", "late"]);
    assert_eq!(watched.next_change().await, EngineEvent::Paused(id.clone(), false));
    engine.docker(&["rename", "late", "later"]);
    assert_eq!(watched.next_change().await, EngineEvent::Renamed(id.clone(), "later".into()));
    engine.docker(&["update", "--cpu-shares", "512", "later"]);
    assert_eq!(watched.next_change().await, EngineEvent::Updated(id.clone()));
    engine.docker(&["exec", "later", "true"]);
    engine.docker(&["kill", "--signal", "CONT", "later"]);
    assert_eq!(watched.next_signal().await, EngineEvent::Sign(id.clone(), EndSign::Signal(Some(18))));
    engine.docker(&["restart", "--time", "60", "later"]);
    let again = watched.next_start(&id, Some(&started)).await;
    assert_eq!(again.id, id);
    assert!(again.started_unix_ms > started.started_unix_ms);
    assert_eq!(again.limits.cpu_shares, 512, "the engine keeps an update after a restart");
    engine.docker(&["rm", "--force", "later"]);
    assert_eq!(watched.next_change().await, EngineEvent::Ended(id, Some(137)));
    engine.docker(&["rm", "--force", "stranger"]);
    watched.assert_no_event_for(Duration::from_millis(300)).await;
}

async fn watch_once(engine: &Engine) -> Vec<EngineContainer> {
    let mut watched = Watched::start(&engine.address());
    watched.connected().await;
    watched.listed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_during_a_lost_connection_are_found_by_listing() {
    let engine = Engine::start();
    let proxy = Proxy::start(&engine.dir().join("proxy.sock"), &engine.socket());
    let ends = engine.run(job("ends-unseen"));
    let mut watched = Watched::start(&proxy.address());
    watched.connected().await;
    assert_eq!(watched.listed_ids().await, [ends]);
    proxy.swallow();
    engine.docker(&["rm", "--force", "ends-unseen"]);
    let begins = engine.run(job("begins-unseen"));
    watched.assert_no_event_for(Duration::from_millis(500)).await;
    proxy.cut();
    watched.lost(Duration::from_secs(30)).await;
    watched.connected().await;
    assert_eq!(watched.listed_ids().await, [begins]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_event_triggers_a_list_and_is_not_an_error() {
    let engine = Engine::start();
    let proxy = Proxy::start(&engine.dir().join("proxy.sock"), &engine.socket());
    let mut watched = Watched::start(&proxy.address());
    watched.connected().await;
    assert_eq!(watched.listed().await, []);
    proxy.swallow();
    let unseen = engine.run(job("unseen"));
    for _ in 0..50 {
        proxy.inject(r#"{"Type":"container","Action":"teleport","Actor":{"ID":"0123456789ab"}}"#);
    }
    let mut listed = watched.listed_ids().await;
    // On a busy machine, the list of a half minute can precede its start.
    while listed.is_empty() && watched.began.elapsed() >= RELIST_EVERY {
        listed = watched.listed_ids().await;
    }
    assert_eq!(listed, [unseen]);
    let lists = |proxy: &Proxy| proxy.requests().iter().filter(|r| r.contains("/containers/json")).count();
    assert!(lists(&proxy) <= 4, "50 unknown events cost {} lists", lists(&proxy));
}

#[tokio::test(flavor = "multi_thread")]
async fn events_dropped_by_the_engine_are_recovered_within_half_a_minute() {
    let engine = Engine::start();
    let proxy = Proxy::start(&engine.dir().join("proxy.sock"), &engine.socket());
    let [same, restarted, paused, renamed] =
        ["same", "restarted", "paused", "renamed"].map(|name| ContainerId::new(&engine.run(job(name))));
    let mut watched = Watched::start(&proxy.address());
    watched.connected().await;
    assert_eq!(watched.listed().await.len(), 4);
    proxy.swallow();
    let begun = ContainerId::new(&engine.run(job("begun")));
    engine.docker(&["restart", "--time", "1", "restarted"]);
    engine.pause("paused");
    engine.docker(&["rename", "renamed", "renamed-unseen"]);

    // On a slow machine, the first list can show the state between two commands.
    let all = loop {
        let event = watched.next_within(RELIST_EVERY + SOON).await;
        let EngineEvent::Listed(all) = event else { panic!("{event:?}") };
        if all.iter().any(|container| container.name == "renamed-unseen") {
            break all;
        }
    };
    let found = |id: &ContainerId| all.iter().find(|container| container.id == *id).unwrap();
    assert_eq!((all.len(), found(&begun).name.as_str()), (5, "begun"));
    assert_eq!(found(&restarted).pid, engine.pid_of("restarted"));
    assert!(found(&paused).paused && !found(&same).paused);
    assert_eq!(found(&renamed).name, "renamed-unseen");
    let inspections = |id: &ContainerId| {
        let inspect = format!("GET /containers/{}/json", id.as_str());
        proxy.requests().iter().filter(|request| request.starts_with(&inspect)).count()
    };
    let inspected = [&same, &restarted, &paused, &renamed].map(inspections);
    // A list during the restart inspects that container once more.
    assert!(matches!(inspected, [1, 2 | 3, 2, 2]), "only changed containers are inspected again: {inspected:?}");
    engine.docker(&["unpause", "paused"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_ends_between_list_and_inspect_is_not_listed() {
    for _ in 0..3 {
        if is_removed_before_its_inspection().await {
            return;
        }
    }
    panic!("the engine never removed a container while the watcher waited");
}

/// Checks that a container which is removed before its inspection is not listed. Not conclusive (`false`) if the removal takes longer than
/// the watcher waits for the inspection, as on a busy machine.
async fn is_removed_before_its_inspection() -> bool {
    let engine = Arc::new(Engine::start());
    let dies = engine.run(job("dies"));
    let stays = engine.run(job("stays"));
    let inspect = format!("GET /containers/{dies}/json");
    let killer = engine.clone();
    let before = move |request: &str| {
        if request.starts_with(&inspect) {
            killer.try_docker(&["rm", "--force", "dies"]);
        }
        None
    };
    let proxy = Proxy::start_with(&engine.dir().join("proxy.sock"), &engine.socket(), Arc::new(before));
    let mut watched = Watched::start(&proxy.address());
    watched.connected().await;
    let listed = match watched.next().await {
        EngineEvent::Lost(reason) if is_late(&reason) => return false,
        EngineEvent::Listed(listed) => listed,
        other => panic!("{other:?}"),
    };
    assert_eq!(listed.iter().map(|c| c.id.as_str()).collect::<Vec<_>>(), [stays]);
    assert_eq!(watched.next_change().await, EngineEvent::Ended(ContainerId::new(&dies), Some(137)));
    drop(proxy);
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_container_does_not_hide_others_and_keeps_its_last_description() {
    let engine = Engine::start();
    let (odd, plain) = (engine.run(job("odd")), engine.run(job("plain")));
    let inspect = format!("GET /containers/{odd}/json");
    let odd_now = Arc::new(AtomicBool::new(true));
    let is_odd = odd_now.clone();
    let before = move |request: &str| {
        let reply = r#"{"State": {"Running": "a value of a later version"}}"#;
        (request.starts_with(&inspect) && is_odd.load(Ordering::Relaxed)).then(|| reply.to_owned())
    };
    let proxy = Proxy::start_with(&engine.dir().join("proxy.sock"), &engine.socket(), Arc::new(before));
    let mut watched = Watched::start(&proxy.address());
    let unknown_event = r#"{"Type":"container","Action":"teleport"}"#;
    watched.connected().await;
    let EngineEvent::Unreadable(id, why) = watched.next().await else { panic!("not reported") };
    assert!(id.as_str() == odd && why.contains("inspect container"), "{why}");
    assert_eq!(watched.listed_ids().await, [plain.as_str()]);

    proxy.inject(unknown_event);
    assert_eq!(watched.listed_ids().await, [plain.as_str()], "reported once");
    odd_now.store(false, Ordering::Relaxed);
    proxy.inject(unknown_event);
    assert_eq!(watched.next().await, EngineEvent::Readable(ContainerId::new(&odd)));
    assert_eq!(watched.listed().await.len(), 2);
    odd_now.store(true, Ordering::Relaxed);
    proxy.inject(unknown_event);
    assert!(matches!(watched.next().await, EngineEvent::Unreadable(..)));
    assert_eq!(watched.listed().await.len(), 2, "the last description is used");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watcher_survives_the_engine_and_reports_each_loss_once() {
    let mut engine = Engine::start();
    engine.run(job("ends-with-the-engine"));
    let mut watched = Watched::start(&engine.address());
    watched.connected().await;
    assert_eq!(watched.listed().await.len(), 1);
    engine.terminate();
    loop {
        match watched.next().await {
            EngineEvent::Lost(reason) => break assert!(reason.contains("DOCKER_HOST"), "{reason}"),
            EngineEvent::Ended(..) => {}
            other => panic!("{other:?}"),
        }
    }
    watched.assert_no_event_for(Duration::from_secs(2)).await;
    engine.boot();
    watched.connected().await;
    assert_eq!(watched.listed().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_survives_a_crash_of_its_engine_is_listed_unchanged() {
    let mut engine = Engine::start_with(Options { live_restore: true });
    engine.run(job("survivor"));
    let mut watched = Watched::start(&engine.address());
    watched.connected().await;
    let before = watched.listed().await;
    engine.kill();
    watched.lost(Duration::from_secs(30)).await;
    engine.boot();
    watched.connected().await;
    assert_eq!(watched.listed().await, before);
    assert!(Path::new(&format!("/proc/{}", before[0].pid)).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watcher_waits_for_an_engine_that_starts_later() {
    let mut engine = Engine::stopped(Options::default());
    let mut watched = Watched::start(&engine.address());
    let reason = watched.lost(Duration::from_secs(30)).await;
    assert!(reason.contains(&engine.socket().display().to_string()) && reason.contains("systemctl"), "{reason}");
    watched.assert_no_event_for(Duration::from_secs(1)).await;
    engine.boot();
    watched.connected().await;
    assert_eq!(watched.listed().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_engine_is_reported_as_lost_and_then_reconnected() {
    let engine = Engine::start();
    let id = ContainerId::new(&engine.run(job("waits")));
    let mut watched = Watched::start(&engine.address());
    watched.connected().await;
    let limits = watched.listed().await[0].limits;
    engine.freeze();
    let client = client(&engine.address());
    let weight = Setting::CpuWeight(CpuWeight::clamped(50.0));
    let refused = client.update(&id, EngineName::Docker, &limits, Conversion::Shares, &[weight]).await.unwrap_err();
    assert!(matches!(refused, EngineError::Timeout { .. }) && refused.is_engine_lost(), "{refused}");
    let reason = watched.lost(RELIST_EVERY + SOON).await;
    assert!(reason.contains("no response within 10 s"), "{reason}");
    engine.thaw();
    watched.connected().await;
    assert_eq!(watched.listed_ids().await, [id.as_str()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_whose_runtime_hangs_does_not_hide_the_others() {
    let engine = Engine::start();
    let (hung, other) = (engine.run(job("hung")), engine.run(job("other")));
    let hanging = engine.hang(&hung);
    let mut watched = Watched::start(&engine.address());
    let others_are_listed = async {
        loop {
            match watched.next().await {
                EngineEvent::Listed(found) => break found,
                EngineEvent::Unreadable(id, why) => assert!(id.as_str() == hung && why.contains("hangs"), "{why}"),
                EngineEvent::Connected(_) | EngineEvent::Lost(_) => {}
                event => panic!("{event:?}"),
            }
        }
    };
    let found = timeout(4 * SOON, others_are_listed).await.expect("a list in time");
    assert_eq!(found.iter().map(|found| found.id.as_str()).collect::<Vec<_>>(), [other]);

    drop(hanging);
    loop {
        match watched.next().await {
            EngineEvent::Started(found) => break assert_eq!(found.id.as_str(), hung),
            EngineEvent::Readable(_) | EngineEvent::Paused(..) | EngineEvent::Listed(_) => {}
            event => panic!("{event:?}"),
        }
    }
}

mod updates {
    use super::*;

    struct Fixture {
        engine: Engine,
        client: Client,
        conversion: Conversion,
    }

    impl Fixture {
        async fn start() -> Fixture {
            let engine = Engine::start();
            let client = client(&engine.address());
            let conversion = in_time(async || client.info().await).await.unwrap().conversion;
            Fixture { engine, client, conversion }
        }

        async fn run(&self, name: &str, options: &[&str]) -> EngineContainer {
            let id = ContainerId::new(&self.engine.run(RunSpec { options, ..job(name) }));
            self.inspect(&id).await.unwrap()
        }

        async fn inspect(&self, id: &ContainerId) -> Result<EngineContainer, EngineError> {
            in_time(async || self.client.inspect(id, EngineName::Docker).await).await
        }

        async fn update(&self, container: &EngineContainer, settings: &[Setting]) -> Result<Vec<Setting>, EngineError> {
            let EngineContainer { id, limits, .. } = container;
            in_time(async || self.client.update(id, EngineName::Docker, limits, self.conversion, settings).await).await
        }

        async fn set(&self, container: &EngineContainer, settings: &[Setting]) -> Vec<Setting> {
            self.update(container, settings).await.unwrap()
        }

        fn cpu_weight(&self, container: &EngineContainer) -> String {
            let file = if Engine::is_cgroup_v1() { "cpu.shares" } else { "cpu.weight" };
            self.engine.cgroup_file(container.id.as_str(), "cpu", file)
        }

        /// The quota in microseconds per period, or `max`.
        fn cpu_quota(&self, container: &EngineContainer) -> String {
            let id = container.id.as_str();
            if Engine::is_cgroup_v1() {
                return self.engine.cgroup_file(id, "cpu", "cpu.cfs_quota_us").replace("-1", "max");
            }
            self.engine.cgroup_file(id, "cpu", "cpu.max").split(' ').next().unwrap().to_owned()
        }

        fn memory_low(&self, container: &EngineContainer) -> String {
            let file = if Engine::is_cgroup_v1() { "memory.soft_limit_in_bytes" } else { "memory.low" };
            self.engine.cgroup_file(container.id.as_str(), "memory", file)
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_weight_is_written_to_the_cgroup_and_the_original_is_restored_exactly() {
        let fixture = Fixture::start().await;
        let unset = fixture.run("unset", &[]).await;
        let odd = fixture.run("odd", &["--cpu-shares", "777"]).await;
        for container in [&unset, &odd] {
            let before = fixture.cpu_weight(container);
            let number: u64 = before.parse().unwrap();
            let original = if Engine::is_cgroup_v1() { Conversion::Shares.weight(number) } else { number as u32 };
            assert_eq!(fixture.set(container, &[Setting::CpuWeight(CpuWeight::clamped(25.0))]).await, []);
            assert_eq!(fixture.cpu_weight(container), if Engine::is_cgroup_v1() { "256" } else { "25" });
            fixture.set(container, &[Setting::CpuWeight(CpuWeight::clamped(f64::from(original)))]).await;
            assert_eq!(fixture.cpu_weight(container), before);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_quota_of_a_container_without_one_is_returned_as_unsupported() {
        let fixture = Fixture::start().await;
        let container = fixture.run("plain", &[]).await;
        for quota in [Some(Quota(500)), None] {
            let quota = [Setting::CpuQuota(quota)];
            assert_eq!(fixture.set(&container, &quota).await, quota);
        }
        assert_eq!(fixture.cpu_quota(&container), "max");
        assert_eq!(fixture.inspect(&container.id).await.unwrap().limits, container.limits);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn containers_with_cpus_or_a_period_keep_their_form_of_quota() {
        let fixture = Fixture::start().await;
        let cpus = fixture.run("cpus", &["--cpus", "1.2345"]).await;
        let period = fixture.run("period", &["--cpu-quota", "33333", "--cpu-period", "50000"]).await;
        for (container, half) in [(&cpus, "50000"), (&period, "25000")] {
            let before = fixture.cpu_quota(container);
            let thousandths = before.parse::<u64>().unwrap() * 1_000 / if half == "50000" { 100_000 } else { 50_000 };
            assert_eq!(fixture.set(container, &[Setting::CpuQuota(Some(Quota(500)))]).await, []);
            assert_eq!(fixture.cpu_quota(container), half);
            fixture.set(container, &[Setting::CpuQuota(Some(Quota(thousandths)))]).await;
            assert_eq!(fixture.cpu_quota(container), before);
        }
        assert_eq!(fixture.set(&cpus, &[Setting::CpuQuota(None)]).await, [Setting::CpuQuota(None)]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn memory_protection_of_a_container_without_a_reservation_is_returned_as_unsupported() {
        let fixture = Fixture::start().await;
        let container = fixture.run("plain", &[]).await;
        let before = fixture.memory_low(&container);
        for bytes in [64 << 20, 0] {
            let low = [Setting::MemoryLow(Bytes(bytes))];
            assert_eq!(fixture.set(&container, &low).await, low);
        }
        assert_eq!(fixture.memory_low(&container), before);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn several_limits_are_one_update_and_unsupported_ones_are_returned() {
        let fixture = Fixture::start().await;
        let proxy = Proxy::start(&fixture.engine.dir().join("proxy.sock"), &fixture.engine.socket());
        let through_proxy = client(&proxy.address());
        let container = fixture.run("quota", &["--cpu-quota", "80000"]).await;
        let io_weights_before = io_weights(&fixture, &container);
        let settings = [
            Setting::CpuWeight(CpuWeight::clamped(50.0)),
            Setting::CpuQuota(Some(Quota(250))),
            Setting::MemoryHigh(Some(Bytes(1 << 30))),
            Setting::IoWeight(100),
        ];
        let EngineContainer { id, limits, .. } = &container;
        let mut tries = 0;
        let update = async || {
            tries += 1;
            through_proxy.update(id, EngineName::Docker, limits, fixture.conversion, &settings).await
        };
        let not_by_engine = in_time(update).await.unwrap();
        let updates = || proxy.requests().iter().filter(|request| request.contains("/update ")).count();
        assert_eq!(updates(), tries);
        assert_eq!(fixture.cpu_quota(&container), "25000");
        assert!(not_by_engine.contains(&settings[2]));
        let took_effect = io_weights(&fixture, &container) != io_weights_before;
        assert_eq!(not_by_engine.contains(&settings[3]), !took_effect, "{not_by_engine:?}");
        through_proxy.update(id, EngineName::Docker, limits, fixture.conversion, &settings[2..3]).await.unwrap();
        assert_eq!(updates(), tries, "no request without supported limits");
    }

    /// The files available depend on the kernel; Docker 20.10 supports only `blkio.weight` and v2.
    fn io_weights(fixture: &Fixture, container: &EngineContainer) -> Vec<Option<String>> {
        let blkio = fixture.engine.cgroup_of(container.id.as_str(), "blkio");
        let files = ["blkio.weight", "blkio.bfq.weight", "io.weight", "io.bfq.weight"];
        files.iter().map(|file| std::fs::read_to_string(blkio.join(file)).ok()).collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_removed_container_is_reported_as_gone_and_a_rejection_with_the_engines_message() {
        let fixture = Fixture::start().await;
        let plain = fixture.run("plain", &[]).await;
        let weight = [Setting::CpuWeight(CpuWeight::clamped(50.0))];
        fixture.engine.docker(&["update", "--cpus", "1", "plain"]);
        let quota = [Setting::CpuQuota(Some(Quota(250)))];
        let with_quota =
            EngineContainer { limits: EngineLimits { cpu_quota: 80_000, ..plain.limits }, ..plain.clone() };
        let refused = fixture.update(&with_quota, &quota).await.unwrap_err();
        assert!(!refused.is_gone() && refused.to_string().contains("NanoCPUs"), "{refused}");
        fixture.engine.docker(&["rm", "--force", "plain"]);
        let gone = fixture.update(&plain, &weight).await.unwrap_err();
        assert!(gone.is_gone(), "{gone}");
        assert!(fixture.inspect(&plain.id).await.unwrap_err().is_gone());
        let hostile = ContainerId::new("../../_ping?x=0123");
        assert!(fixture.client.inspect(&hostile, EngineName::Docker).await.unwrap_err().is_gone());
    }
}

mod output {
    use super::*;

    const FRAMED: LogFormat = LogFormat { tty: false, engine: EngineName::Docker };

    async fn all(engine: &Client, container: &str, tty: bool, from: LogPosition) -> Vec<(String, LogPosition)> {
        let pieces = logs(engine, &ContainerId::new(container), LogFormat { tty, ..FRAMED }, from);
        let read = pieces.map(|piece| piece.map(|p| (String::from_utf8_lossy(&p.bytes).into_owned(), p.position)));
        let read: Vec<Result<_, _>> = timeout(Duration::from_secs(120), read.collect()).await.expect("it ends");
        read.into_iter().collect::<Result<_, _>>().unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn each_line_of_the_local_driver_is_read_once_also_after_interruptions() {
        let engine = Engine::start();
        let client = client(&engine.address());
        for (name, terminal) in [("framed", false), ("terminal", true)] {
            let options: &[&str] = if terminal { &["--log-driver", "local", "-t"] } else { &["--log-driver", "local"] };
            let script = "i=0; while [ $i -lt 300 ]; do echo line $i; echo side $i >&2; i=$((i+1)); done";
            let id = engine.run(RunSpec { options, script, ..job(name) });
            engine.docker(&["wait", &id]);
            let end = if terminal { "\r\n" } else { "\n" };
            let whole = all(&client, &id, terminal, LogPosition::default()).await;
            let mut lines: Vec<&str> = whole.iter().map(|(text, _)| text.as_str()).collect();
            assert_eq!(lines.len(), 600, "{name}");
            lines.retain(|line| line.starts_with("line"));
            assert_eq!(lines, (0..300).map(|i| format!("line {i}{end}")).collect::<Vec<_>>());
            for interrupted_after in [1, 17, 250, 599, 600] {
                let rest = all(&client, &id, terminal, whole[interrupted_after - 1].1).await;
                assert_eq!(rest, whole[interrupted_after..], "{name} from {interrupted_after}");
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn output_is_followed_until_the_job_ends() {
        let engine = Engine::start();
        let client = client(&engine.address());
        let script = "echo first; read go < /wait/fifo; echo second; printf unfinished";
        let wait = engine.dir().join("wait");
        std::fs::create_dir(&wait).unwrap();
        let fifo = wait.join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let bind = format!("{}:/wait", wait.display());
        let id = engine.run(RunSpec { options: &["--log-driver", "local", "-v", &bind], script, ..job("follows") });
        let mut pieces = Box::pin(logs(&client, &ContainerId::new(&id), FRAMED, LogPosition::default()));
        let mut next = async || timeout(Duration::from_secs(60), pieces.next()).await.expect("in time");
        assert_eq!(next().await.unwrap().unwrap().bytes, b"first\n");
        std::fs::write(&fifo, "go\n").unwrap();
        assert_eq!(next().await.unwrap().unwrap().bytes, b"second\n");
        assert_eq!(next().await.unwrap().unwrap().bytes, b"unfinished\n");
        assert!(next().await.is_none());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_line_of_megabytes_arrives_completely_in_bounded_pieces() {
        let engine = Engine::start();
        let client = client(&engine.address());
        for (name, terminal) in [("framed", false), ("terminal", true)] {
            let options: &[&str] = if terminal { &["--log-driver", "local", "-t"] } else { &["--log-driver", "local"] };
            let script = "dd if=/dev/zero bs=1000 count=3000 2>/dev/null; echo; echo after";
            let id = engine.run(RunSpec { options, script, ..job(name) });
            engine.docker(&["wait", &id]);
            let pieces = all(&client, &id, terminal, LogPosition::default()).await;
            assert!(pieces.iter().all(|(text, _)| text.len() <= 96 << 10), "{name}");
            let whole: String = pieces.iter().map(|(text, _)| text.as_str()).collect();
            assert_eq!(whole.replace('\r', ""), format!("{}\nafter\n", "\0".repeat(3_000_000)), "{name}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_log_source_depends_on_the_driver() {
        let engine = Engine::start();
        let client = client(&engine.address());
        for (driver, wanted) in [("local", LogSource::Api { driver: "local".into() }), ("none", LogSource::None)] {
            let id = ContainerId::new(&engine.run(RunSpec { options: &["--log-driver", driver], ..job(driver) }));
            let inspected = in_time(async || client.inspect(&id, EngineName::Docker).await).await.unwrap();
            assert_eq!(inspected.log, wanted);
        }
        let gone = logs(&client, &ContainerId::new(&"0".repeat(64)), FRAMED, LogPosition::default());
        let first = Box::pin(gone).next().await.unwrap();
        assert!(first.unwrap_err().is_gone());
    }
}

mod broken_engines {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    /// A socket that replies to each request with `reply`, then repeats `endless` forever.
    fn fake_engine(reply: &'static [u8], endless: &'static [u8]) -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("engine.sock");
        let listener = UnixListener::bind(&path).unwrap();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut request = [0; 4_096];
                    let _ = client.read(&mut request).await;
                    let mut is_open = client.write_all(reply).await.is_ok() && !endless.is_empty();
                    while is_open {
                        is_open = client.write_all(endless).await.is_ok();
                    }
                });
            }
        });
        (dir, format!("unix://{}", path.display()))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_invalid_reply_is_reported_once_and_the_watcher_continues() {
        let unreachable = "; check that it is running (systemctl status docker)";
        let other_server = "; check that the socket belongs to Docker or Podman";
        let rejected = "; see docker inspect and the engine's log";
        let invalid: [(&[u8], &[u8], &str); 8] = [
            (b"", b"", unreachable),
            (b"\x00\xff\xfe garbage \r\n\r\n", b"", unreachable),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n<htm", b"", unreachable),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>", b"", other_server),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]", b"", other_server),
            (b"HTTP/1.1 500 Oops\r\ncontent-length: 18\r\n\r\n{\"message\":\"oops\"}", b"", rejected),
            (b"HTTP/1.1 200 OK\r\nx: ", b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", unreachable),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"0\r\n\r\n0\r\n\r\n", other_server),
        ];
        for (reply, endless, next) in invalid {
            let (_dir, address) = fake_engine(reply, endless);
            let mut watched = Watched::start(&address);
            let reason = watched.lost(Duration::from_secs(60)).await;
            assert!(reason.len() < 800 && reason.contains(next), "{reason}");
            watched.assert_no_event_for(Duration::from_millis(900)).await;
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_endless_reply_is_truncated() {
        static SPACES: [u8; 65_536] = [b' '; 65_536];
        let (_dir, address) = fake_engine(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", &SPACES);
        let client = client(&address);
        let error = in_time(async || client.list(LABEL).await).await.unwrap_err();
        assert!(error.to_string().contains("larger than 32 MiB"), "{error}");
        let error = in_time(async || client.info().await).await.unwrap_err();
        assert!(error.to_string().contains("larger than 32 MiB"), "{error}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn invalid_log_data_is_an_error_and_ends_the_stream() {
        let (_dir, address) = fake_engine(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n<html>invalid", b"");
        let client = client(&address);
        let format = LogFormat { tty: false, engine: EngineName::Docker };
        let mut pieces = Box::pin(logs(&client, &ContainerId::new("0123456789ab"), format, LogPosition::default()));
        assert!(matches!(pieces.next().await, Some(Err(EngineError::InvalidResponse { .. }))));
        assert!(pieces.next().await.is_none());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_watcher_ends_when_its_receiver_is_dropped() {
        let (_dir, address) = fake_engine(b"", b"");
        let (sender, receiver) = mpsc::channel(1);
        let watcher = tokio::spawn(watch(client(&address), Wanted::labelled(LABEL), sender));
        sleep(Duration::from_millis(100)).await;
        drop(receiver);
        timeout(Duration::from_secs(60), watcher).await.expect("it ends").unwrap();
    }
}
