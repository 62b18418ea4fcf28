//! The published policies on one real Swarm: each does what its paper says, by the events of the coordinator.

use crate::support::daemon::eventually_or;
use crate::support::swarm::{IMAGE, RESTARTS, TestSwarm, assert_one_writer, has_progress};
use serde_json::Value;
use std::time::Duration;

const LONG: u32 = 100_000;
const SOON: Duration = Duration::from_secs(60);

/// Waits for an event of a job with this text.
fn await_event(swarm: &TestSwarm, job: &str, text: &str) -> String {
    let events = || swarm.stdout_of(&["events"]);
    let found = || events().lines().find(|line| line.contains(job) && line.contains(text)).map(str::to_owned);
    eventually_or(&format!("{job}: {text}"), SOON, found, || format!("{}\n{}", events(), swarm.end_of_log()))
}

/// Restarts the coordinator with a policy, on a Swarm without jobs.
fn restart_with(swarm: &mut TestSwarm, policy: &str) {
    swarm.kill_coordinator();
    let services = swarm.docker(1, &["service", "ls", "--quiet"]);
    if !services.is_empty() {
        swarm.docker(1, &[&["service", "rm"][..], &services.lines().collect::<Vec<_>>()].concat());
    }
    swarm.coordinate_with(&format!("[cluster]\n{policy}\n"));
    swarm.wait_for_nodes("three ready ones", |nodes| nodes.iter().filter(|node| node["state"] == "ready").count() == 3);
}

/// The memory that a job reserves if a node is to hold only one of them.
fn most(swarm: &TestSwarm) -> String {
    let whole: u64 = swarm.docker(1, &["info", "--format", "{{.MemTotal}}"]).parse().unwrap();
    (whole * 6 / 10).to_string()
}

/// Submits a training whose metric grows by an eighth per unit while the file NAME.grows exists, and then settles; it saves its state.
fn submit_growing(swarm: &TestSwarm, name: &str) {
    let beats = swarm.beats();
    std::fs::write(beats.join(format!("{name}.grows")), "").unwrap();
    let script = format!(
        "set -- $(cat /saved/i 2>/dev/null || echo 0 1000000 125000); i=$1; v=$2; d=$3; \
         trap 'echo $i $v $d >/saved/i; exit 143' TERM; \
         while :; do i=$((i+1)); v=$((v+d)); if [ -e /beats/{name}.grows ]; then d=$((v/8)); else d=$((d*7/8)); fi; \
         echo \"$(hostname) $i\" >>/beats/{name}; echo \"epoch $i/{LONG} loss $v\"; sleep 0.2; done"
    );
    let checkpoint = format!("flowcon.checkpoint={name}");
    let saved = format!("type=volume,source={name},target=/saved");
    let shared = format!("type=bind,source={},target=/beats", beats.display());
    let mut arguments = vec!["service", "create", "--detach", "--no-resolve-image", "--name", name, "--replicas", "0"];
    arguments.extend(RESTARTS);
    arguments.extend(["--label", "flowcon.queue=true", "--label", &checkpoint]);
    arguments.extend(["--container-label", "flowcon.enable=true", "--mount", &saved, "--mount", &shared]);
    arguments.extend([IMAGE, "sh", "-c", &script]);
    swarm.docker(1, &arguments);
}

#[test]
fn the_published_policies_do_on_a_real_swarm_what_their_papers_say() {
    let mut swarm = TestSwarm::start_with_gpus(3, "0,0,1");
    for (policy, run) in [
        ("SpeCon", specon as fn(&mut TestSwarm)),
        ("ProCon", procon),
        ("DRAGON", dragon),
        ("OASIS", oasis),
        ("deadlines", deadlines),
        ("alternatives", alternatives),
        ("reconfiguration", reconfiguration),
    ] {
        let began = std::time::Instant::now();
        run(&mut swarm);
        println!("{policy}: {:.0} s", began.elapsed().as_secs_f64());
    }
}

/// Algorithms 1 to 3: a converged training leaves a node where others still grow, and once all have converged, an idle node takes one.
fn specon(swarm: &mut TestSwarm) {
    let policy = "placement = \"spread\"\nmoves = \"specon\"\nspecon-threshold = 0.05\nspecon-interval = \"2s\"";
    restart_with(swarm, policy);
    ["node-2", "node-3"].iter().for_each(|node| drop(swarm.stdout_of(&["drain", node])));
    let names = ["spe-a", "spe-b", "spe-c"];
    names.iter().for_each(|name| submit_growing(swarm, name));
    swarm.wait_for_all("all run on one node, with progress", |jobs| {
        jobs.len() == 3 && jobs.iter().all(|job| has_progress(job) && job["node"] == "node-1")
    });
    swarm.stdout_of(&["undrain", "node-2"]);
    let settle = |name: &str| std::fs::remove_file(swarm.beats().join(format!("{name}.grows"))).unwrap();
    settle("spe-a");
    // Weights of a converged training and of two that grow; nothing is there.
    await_event(swarm, "spe-a", "stopping, then to node-2: converged; score 5.0 here, 0.0 there");
    swarm.running_on("spe-a", "node-2");
    settle("spe-b");
    settle("spe-c");
    let units = || ["spe-b", "spe-c"].map(|name| assert_one_writer(&swarm.beats().join(name)));
    let before = units();
    let settled = || units().iter().zip(before).all(|(now, before)| *now > before + 60).then_some(());
    eventually_or("both have converged", SOON, settled, || format!("{:?}", units()));
    swarm.stdout_of(&["undrain", "node-3"]);
    swarm.wait_for_all("an idle node takes a training", |jobs| {
        jobs.iter().any(|job| job["node"] == "node-3" && job["state"] == "running")
    });
    await_event(swarm, "spe-", "stopping, then to node-3: fewer jobs there");
    for name in names {
        assert_one_writer(&swarm.beats().join(name));
    }
}

/// Equations 1 to 4: of a node with few long trainings and one with more short ones, a new job goes to that with the lower contention rate.
fn procon(swarm: &mut TestSwarm) {
    restart_with(swarm, "placement = \"procon\"\nmoves = \"never\"");
    swarm.stdout_of(&["drain", "node-3"]);
    for (name, units, node) in
        [("pro-1", 600, 1), ("pro-2", 600, 1), ("pro-3", 600, 1), ("pro-4", LONG, 2), ("pro-5", LONG, 2)]
    {
        swarm.submit_with(name, units, &[], &["--constraint", &format!("node.hostname==node-{node}")]);
    }
    swarm.wait_for_all("all have reported", |jobs| {
        jobs.len() == 5 && jobs.iter().all(|job| has_progress(job) && job["units"].as_f64() >= Some(5.0))
    });
    swarm.submit("pro-new", LONG, &[]);
    await_event(swarm, "pro-new", "starting on node-1: least contention there");
    swarm.stdout_of(&["undrain", "node-3"]);
}

/// Workers are added when nothing has happened for a time, and taken from a job for one that has waited for a time.
fn dragon(swarm: &mut TestSwarm) {
    restart_with(swarm, "queue = \"dragon\"\ndragon-waits = \"3s\"\ndragon-idles = \"4s\"");
    let most = most(swarm);
    let elastic = ["flowcon.gang=dra", "flowcon.workers-min=1", "flowcon.workers-max=3"];
    for worker in ["dra-1", "dra-2", "dra-3"] {
        swarm.submit_with(worker, LONG, &elastic, &["--reserve-memory", &most]);
    }
    await_event(swarm, "dra-1", "starting on");
    swarm.wait_for_all("scaled up when idle", |jobs| jobs.iter().all(has_progress));
    await_event(swarm, "dra-3", "no job waits for these resources: another worker");
    // An important job is not preferred: it waits as long as any other.
    swarm.submit_with("dra-new", 10, &["flowcon.priority=100"], &["--reserve-memory", &most]);
    await_event(swarm, "dra-", "stopping: makes room for a job that is more important or waited too long");
    swarm.wait("dra-new", "done", |job| job["state"] == "done");
    swarm.wait_for_all("scaled up again", |jobs| {
        jobs.iter().filter(|job| job["gang"] == "dra" && job["state"] == "running").count() == 3
    });
}

/// Equal jobs fill the cluster. With fixed prices, a job is refused while its resources cost more than it is worth, and told what would admit
/// it; it is admitted when the price has fallen.
fn oasis(swarm: &mut TestSwarm) {
    restart_with(swarm, "admission = \"prices\"");
    let most = most(swarm);
    let submit = |swarm: &TestSwarm, name: &str, priority: u32| {
        let priority = format!("flowcon.priority={priority}");
        swarm.submit_with(name, LONG, &[&priority], &["--reserve-memory", &most]);
    };
    ["oas-1", "oas-2", "oas-3"].iter().for_each(|name| submit(swarm, name, 100));
    swarm.wait_for_all("equal jobs fill it", |jobs| jobs.len() == 3 && jobs.iter().all(has_progress));
    swarm.kill_coordinator();
    swarm.coordinate_with("[cluster]\nadmission = \"prices\"\nprice-lowest = 0.5\nprice-highest = 500.0\n");
    swarm.wait("oas-3", "seen again", has_progress);
    swarm.stdout_of(&["cancel", "oas-3"]);
    submit(swarm, "oas-poor", 1);
    // A fifth of the cluster, of which two fifths are in use: 0.2 · 0.5 · (500 / 0.5)^0.4. At 23 %, it costs 0.5.
    let refused = swarm.wait("oas-poor", "refused by its price", |job| {
        let why = job["why"]["text"].as_str().unwrap_or_default();
        why.contains(
            "its utility is 0.50, but its resources currently cost 1.58: it starts with priority 4 or more, or once less \
             than 23 % of the cluster is in use",
        )
    });
    assert_eq!(refused["state"], "waiting", "although the third node is free");
    swarm.stdout_of(&["cancel", "oas-1"]);
    await_event(swarm, "oas-poor", "starting on");
    swarm.wait("oas-poor", "running", |job| job["state"] == "running");
}

/// A job that has time waits while a rented node stays closed. One that would be late opens it; another that would be late, when all nodes
/// are open, preempts a job that can wait, which goes on later; and the idle node is closed.
fn deadlines(swarm: &mut TestSwarm) {
    // With a cheaper node, the second job would wait for it if the first has it already: there is time.
    for node in ["node-1", "node-2", "node-3"] {
        swarm.docker(1, &["node", "update", "--label-add", "flowcon.price=1", node]);
    }
    swarm.docker(1, &["node", "update", "--label-add", "flowcon.rented=true", "node-3"]);
    let nodes = "[nodes]\nclose-after = \"4s\"\ncommand-within = \"1s\"";
    restart_with(swarm, &format!("queue = \"deadlines\"\nreclaim = true\nmoves = \"never\"\n{nodes}"));
    await_third_node(swarm, "closed");
    let most = most(swarm);
    let submit = |name: &str, units: u32, takes: &str, deadline: &str| {
        let labels = [format!("flowcon.duration={takes}"), format!("flowcon.deadline={deadline}")];
        swarm.submit_with(name, units, &labels.each_ref().map(String::as_str), &["--reserve-memory", &most])
    };
    let long = ["due-1", "due-2"].map(|name| submit(name, LONG, "10m", "10h"));
    swarm.wait_for_all("both nodes are full", |jobs| jobs.len() == 2 && jobs.iter().all(has_progress));
    let has_time = submit("due-far", 10, "1m", "10h");
    let waits = |job: &Value| job["why"]["text"] == "no node has room: 2 full, 1 closed" && job["late"] == false;
    swarm.wait("due-far", "waiting for an open node", waits);
    swarm.stdout_of(&["suspend", "due-2"]);
    swarm.wait("due-far", "done", |job| job["state"] == "done");
    assert_eq!(assert_one_writer(&has_time), 10);
    assert!(!swarm.stdout_of(&["events"]).contains("opening for"), "{}", swarm.stdout_of(&["events"]));
    swarm.stdout_of(&["resume", "due-2"]);
    swarm.wait("due-2", "running again", |job| {
        job["state"] == "running" && job["node"] != "node-3" && has_progress(job)
    });
    // Ten minutes of units: it will be in time, but its room is not free soon.
    submit("due-soon", 3000, "10m", "20m");
    await_event(swarm, "node-3", "opening for due-soon");
    await_third_node(swarm, "ready");
    swarm.running_on("due-soon", "node-3");
    let urgent = submit("due-now", 10, "10m", "10m");
    await_event(swarm, "due-", "stopping: can wait: makes room for a job that would be late otherwise");
    swarm.wait("due-now", "done", |job| job["state"] == "done");
    swarm.wait_for_all("the job that was preempted goes on", |jobs| {
        ["due-1", "due-2", "due-soon"]
            .iter()
            .all(|name| jobs.iter().any(|job| job["name"] == *name && has_progress(job)))
    });
    assert_eq!(assert_one_writer(&urgent), 10);
    long.iter().for_each(|beats| assert!(assert_one_writer(beats) > 0));
    ["due-1", "due-2", "due-soon"].iter().for_each(|name| drop(swarm.stdout_of(&["cancel", name])));
    await_third_node(swarm, "closed");
    await_event(swarm, "node-3", "closing: idle for 4 s");
}

/// Waits until the rented node is in this state.
fn await_third_node(swarm: &TestSwarm, state: &str) {
    let is_so = |nodes: &[Value]| nodes.iter().any(|node| node["name"] == "node-3" && node["state"] == state);
    swarm.wait_for_nodes(&format!("node-3 is {state}"), is_so);
}

/// Prices of the nodes for [`alternatives`]: the third has a GPU, on which a job is four times as fast.
const PRICES: [f64; 3] = [1.0, 1.0, 10.0];
const LATE_COST: f64 = 1000.0;

/// Eight jobs that run on cores or on a GPU. Two must end soon: the second waits for the GPU of the first, because it would be late on cores,
/// although those are free. The others take the cores, which are cheaper. So all cost no more than if each took what is free, by earliest
/// deadline, and none is late that would not be late then.
fn alternatives(swarm: &mut TestSwarm) {
    for (node, price) in ["node-1", "node-2", "node-3"].iter().zip(PRICES) {
        swarm.docker(1, &["node", "update", "--label-add", &format!("flowcon.price={price}"), node]);
    }
    // It is closed.
    let opened = ["--label-rm", "flowcon.rented", "--label-rm", "flowcon.rented.stage", "--availability", "active"];
    swarm.docker(1, &[&["node", "update"][..], &opened, &["node-3"]].concat());
    restart_with(swarm, "queue = \"deadlines\"\nreclaim = true\nmoves = \"never\"");
    await_third_node(swarm, "ready");
    let most = most(swarm);
    let due_s = |number: usize| if number <= 2 { 32.0 } else { 600.0 };
    let submit = |number: usize| {
        let labels = [
            "flowcon.alternatives=cpus=1 node.labels.flowcon.price==1 duration=40s | gpus=1 duration=9s".to_owned(),
            format!("flowcon.deadline={}s", due_s(number)),
            format!("flowcon.late-cost={LATE_COST}"),
        ];
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let pause = "PAUSE={{if eq .Node.Hostname \"node-3\"}}0.25{{else}}1.2{{end}}";
        swarm.submit_with(&format!("eight-{number}"), 30, &labels, &["--reserve-memory", &most, "--env", pause]);
    };
    submit(1);
    swarm.running_on("eight-1", "node-3");
    submit(2);
    // The coordinator may not have seen it yet.
    let text = || String::from_utf8_lossy(&swarm.flowctl(&["explain", "eight-2"]).stdout).into_owned();
    let explained = || {
        let text = text();
        (text.contains("chosen: gpus=1 duration=9s") && text.contains("for lateness")).then_some(())
    };
    eventually_or("the second waits for the GPU", SOON, explained, text);
    (3..=8).for_each(submit);
    let done = || Some(swarm.jobs()).filter(|jobs| jobs.len() == 8 && jobs.iter().all(|job| job["state"] == "done"));
    let jobs = eventually_or("all eight are done", SOON * 4, done, || format!("{:#?}", swarm.jobs()));
    let at = |job: &Value, text: &str| {
        let log = job["log"].as_array().expect("a log");
        let event = log.iter().find(|event| event["text"].as_str().is_some_and(|event| event.starts_with(text)));
        event.unwrap_or_else(|| panic!("{text}: {log:?}"))["unix_ms"].as_f64().expect("a time") / 1000.0
    };
    let mean = |on_gpu: bool| {
        let there = jobs.iter().filter(|job| (job["node"] == "node-3") == on_gpu);
        let took: Vec<f64> = there.map(|job| at(job, "done") - at(job, "starting on")).collect();
        took.iter().sum::<f64>() / took.len() as f64
    };
    let (cores_s, gpu_s) = (mean(false), mean(true));
    let (edf, late) = by_earliest_deadline([cores_s, cores_s, gpu_s], (1..=8).map(due_s));
    let cost: f64 = jobs.iter().map(|job| job["cost"].as_f64().expect("a cost")).sum();
    println!("{cores_s:.0} s on cores, {gpu_s:.0} s on the GPU; cost {cost:.3}, by earliest deadline {edf:.3}");
    assert!(cost <= edf, "{cost} is more than {edf}, by earliest deadline");
    let is_late = |job: &&Value| at(job, "done") > job["deadline_unix_ms"].as_f64().expect("a deadline") / 1000.0;
    assert!(jobs.iter().filter(is_late).count() <= late, "{late} late by earliest deadline; {jobs:#?}");
}

/// A running job gets another of its alternatives when one is free that costs less, with the price of the stop and the start: late on cores,
/// it goes on from its saved state on the GPU once the job there has ended. The nodes are those of [`alternatives`].
fn reconfiguration(swarm: &mut TestSwarm) {
    restart_with(swarm, "queue = \"deadlines\"\nreclaim = true");
    swarm.submit_with("con-gpu", LONG, &["flowcon.alternatives=gpus=1 duration=10h", "flowcon.movable=false"], &[]);
    swarm.wait("con-gpu", "running on the GPU", has_progress);
    let late_cost = format!("flowcon.late-cost={LATE_COST}");
    let labels = [
        "flowcon.alternatives=cpus=1 node.labels.flowcon.price==1 duration=10m | gpus=1 duration=1m",
        "flowcon.deadline=5m",
        late_cost.as_str(),
    ];
    let pause = "PAUSE={{if eq .Node.Hostname \"node-3\"}}0.02{{else}}0.2{{end}}";
    let beats = swarm.submit_with("con-job", 3000, &labels, &["--env", pause]);
    let on_cores =
        swarm.wait("con-job", "running on cores", |job| has_progress(job) && job["units"].as_f64() >= Some(5.0));
    assert_ne!(on_cores["node"], "node-3");
    let before = assert_one_writer(&beats);
    swarm.stdout_of(&["cancel", "con-gpu"]);
    let event = await_event(swarm, "con-job", "although stop and start cost");
    swarm.running_on("con-job", "node-3");
    println!("{event}");
    let goes_on = || (assert_one_writer(&beats) > before + 20).then_some(());
    eventually_or("it goes on from its saved state", SOON, goes_on, || swarm.end_of_log());
    let text = String::from_utf8_lossy(&swarm.flowctl(&["explain", "con-job"]).stdout).into_owned();
    assert!(text.contains("chosen: gpus=1 duration=1m"), "{text}");
}

/// Returns the cost of jobs on nodes that each hold one of them, with their lateness, and how many are late: in the order of the deadlines,
/// each takes the free node where it is in time and cheapest, else fastest. `seconds`: how long a job takes on each node.
fn by_earliest_deadline(seconds: [f64; 3], deadlines: impl Iterator<Item = f64>) -> (f64, usize) {
    let mut waiting: Vec<f64> = deadlines.collect();
    waiting.sort_by(f64::total_cmp);
    let (mut free_at, mut cost, mut late) = ([0.0; 3], 0.0, 0);
    for deadline in waiting {
        let now = free_at.iter().copied().fold(f64::INFINITY, f64::min);
        let key = |node: &usize| {
            let is_late = now + seconds[*node] > deadline;
            (is_late, if is_late { seconds[*node] } else { PRICES[*node] * seconds[*node] })
        };
        let free = (0..3).filter(|node| free_at[*node] <= now);
        let node = free.min_by(|a, b| key(a).partial_cmp(&key(b)).expect("numbers")).expect("a free node");
        free_at[node] = now + seconds[node];
        let late_s = (free_at[node] - deadline).max(0.0);
        // The memory that each reserves is six tenths of a node.
        cost += (0.6 * PRICES[node] * seconds[node] + LATE_COST * late_s) / 3600.0;
        late += usize::from(late_s > 0.0);
    }
    (cost, late)
}
