//! A real training with PyTorch (gloo) on a real Swarm: torchrun finds its workers by the variables of the gang, and the training goes on
//! when their number changes.

use crate::support::daemon::eventually_or;
use crate::support::swarm::TestSwarm;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Torchrun notices after a quarter of a minute that a worker has left.
const SOON: Duration = Duration::from_secs(90);
const PYTORCH: &str = "localhost:1/pytorch:1";

/// Steps of the training: number, workers and loss.
fn steps(shared: &Path) -> Vec<(u32, u32, f64)> {
    let text = fs::read_to_string(shared.join("log")).unwrap_or_default();
    let step = |line: &str| {
        let mut words = line.split(' ');
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    text.lines().filter_map(step).collect()
}

#[test]
#[ignore = "needs python3-torch, and takes two minutes: integration/cluster/torchrun"]
fn a_pytorch_training_goes_on_when_its_gang_is_scaled_up_and_down() {
    let mut swarm = TestSwarm::start(3);
    let (files, shared) = (swarm.dir.join("pytorch"), swarm.dir.join("shared"));
    // The programs are those of this machine.
    for folder in ["usr", "etc", "tmp"] {
        fs::create_dir_all(files.join(folder)).unwrap();
    }
    for link in ["bin", "lib", "lib64"] {
        std::os::unix::fs::symlink(format!("usr/{link}"), files.join(link)).unwrap();
    }
    (1..=3).for_each(|node| swarm.import(node, &files, PYTORCH));
    fs::create_dir_all(&shared).unwrap();
    fs::write(shared.join("train.py"), include_str!("torch_train.py")).unwrap();
    swarm.coordinate();
    let whole: u64 = swarm.docker(1, &["info", "--format", "{{.MemTotal}}"]).parse().unwrap();
    let most = (whole * 6 / 10).to_string();
    let urgent = |name: &str| {
        swarm.submit_with(name, 100_000, &["flowcon.priority=90"], &["--reserve-memory", &most]);
        swarm.wait(name, "running", |job| job["state"] == "running");
    };
    let end = |name: &str| drop(swarm.stdout_of(&["cancel", name]));
    urgent("first");
    let shared_volume = format!("{}:/shared", shared.display());
    swarm.stdout_of(&[
        "submit",
        "--name",
        "torch",
        "--workers",
        "2..3",
        "--image",
        PYTORCH,
        "--memory",
        &most,
        "--movable",
        "true",
        "--volume",
        "/usr:/usr:ro",
        "--volume",
        "/etc/alternatives:/etc/alternatives:ro",
        "--volume",
        &shared_volume,
        // Seconds that torchrun waits for another worker when enough have come; its default is 30.
        "--env",
        "PET_RDZV_CONF=last_call_timeout=2",
        // The defaults of both fail in PyTorch 1.13 on Python 3.11 or later. Standard error is printed, standard output is not.
        "--env",
        "PET_REDIRECTS=1",
        "--env",
        "PET_TEE=2",
        "--",
        "python3",
        "-m",
        "torch.distributed.run",
        "/shared/train.py",
    ]);
    let trains_with = |workers: u32, after: u32| {
        let probe = || steps(&shared).last().filter(|(step, with, _)| *step > after + 10 && *with == workers).copied();
        let logs =
            || ["torch-1", "torch-2"].map(|name| swarm.flowctl(&["logs", name])).map(|output| format!("{output:?}"));
        let what = format!("the training goes on with {workers} workers");
        eventually_or(&what, SOON, probe, || {
            format!("{:?}\n{:?}\n{}", steps(&shared).last(), logs(), swarm.end_of_log())
        })
    };
    let (two, _, first_loss) = trains_with(2, 0);
    end("first");
    let (three, _, _) = trains_with(3, two);
    urgent("second");
    let (again, _, loss) = trains_with(2, three);
    fs::write(shared.join("enough"), "").unwrap();
    end("second");
    swarm.wait_for_all("the training has ended", |jobs| {
        jobs.iter().filter(|job| job["gang"] == "torch" && job["exit_code"] == 0).count() >= 2
    });
    assert!(loss < first_loss, "it has learned: {first_loss} … {loss}");
    // Steps of a group that was interrupted before it saved may be repeated, but none is skipped.
    let steps = steps(&shared);
    assert!(steps.windows(2).all(|pair| pair[1].0 <= pair[0].0 + 1), "{steps:?}");
    println!("two workers until step {two}, three until {three}, two until {again}; loss {first_loss} … {loss}");
}
