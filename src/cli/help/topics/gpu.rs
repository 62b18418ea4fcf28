//! The topic `gpu`: jobs that share a GPU.

use super::{Part, Section, Topic, item, paragraph};

pub(super) fn gpu() -> Topic {
    Topic {
        name: "gpu",
        about: "jobs that share a GPU: monitoring, duty cycle, MPS, and their limitations",
        sections: vec![monitoring(), duty_cycle(), mps(), test_status()],
    }
}

fn monitoring() -> Section {
    Section {
        heading: "MONITORING",
        parts: vec![
            paragraph(
                "With NVIDIA's driver, each job's share of a GPU's time and memory is shown: `flowctl status -o wide`, `flowctl top`, \
                 `flowctl explain JOB`, `flowctl metrics`. With gpu.control = \"off\", the default, GPUs are only monitored. Under the unit, the \
                 daemon needs access to the devices first: flowcon-operations(7), UNIT.",
            ),
            paragraph(
                "The share of time is the value of the driver: the time in which any kernel of the job ran, however small. The driver reports \
                 no such value for the instances of a divided GPU (MIG).",
            ),
        ],
    }
}

fn duty_cycle() -> Section {
    Section {
        heading: "DUTY CYCLE",
        parts: vec![
            paragraph(
                "gpu.control = \"duty-cycle\": of the jobs that wait for one GPU, the one whose next milestone takes the fewest GPU-seconds is \
                 favoured. The others are frozen for a part of each period (gpu.freeze-at-most) by the kernel's cgroup freezer. At first they \
                 hardly run, and the speed of the favoured job alone is measured from its log, in progress per second. Then they get more \
                 time as long as the favoured job keeps 98 % of that speed, and half as much when it does not. Together they run for at \
                 least 3 % of the time. Work that a job has queued on the GPU is always finished, so a step must be much shorter than a \
                 period.",
            ),
            item(
                "jobs that are never frozen",
                "A job that is alone on its GPU, released or otherwise held, paused, or has a health check. No job at all is frozen \
                 if the favoured job prints no progress, under policy.name = \"fair\", and in a control period.",
            ),
            item(
                "no job stays frozen",
                "A separate process freezes and thaws. It thaws every job when the daemon ends, is killed, or hangs for four seconds; the \
                 daemon does so when that process is killed. The journal records in advance which jobs may be frozen: if both are killed, \
                 `flowcond restore` (which the unit runs after each end) and the next start thaw the rest.",
            ),
            item(
                "queued work still runs",
                "Kernels that a job submitted to the GPU before it was frozen still run. A job that queues seconds of work is slowed down \
                 less than its share suggests.",
            ),
            item(
                "memory is not freed",
                "A frozen job keeps its GPU memory. Jobs that do not fit together fail as they do without flowcon.",
            ),
            item(
                "the engine mistakes a freeze for a pause",
                "During a freeze, docker exec and docker pause fail; half a second later they work. A container frozen by an engine or \
                 another program is left frozen. A command that is frozen by hand during a freeze by flowcon is thawed with it.",
            ),
            item(
                "timeouts keep running",
                "In distributed training, a frozen job delays its workers on other machines. Exclude it: `flowctl release JOB`.",
            ),
        ],
    }
}

fn mps() -> Section {
    Section {
        heading: "MPS",
        parts: vec![
            paragraph(
                "gpu.control = \"mps\": NVIDIA's Multi-Process Service runs kernels of several processes at the same time, each on a share \
                 of the GPU's processors. flowcon then freezes no job; `flowctl doctor` checks for the control daemon. Set the share when a \
                 job starts:",
            ),
            Part::Code("flowctl run --gpu-share 40% -- python train.py"),
            item(
                "prerequisite",
                "Start the control daemon once, as the user of the jobs: nvidia-cuda-mps-control -d. If its pipes are not in \
                 /tmp/nvidia-mps, set CUDA_MPS_PIPE_DIRECTORY to their folder, for the daemon and for the jobs.",
            ),
            item(
                "a container",
                "Start it with docker run --ipc host, the folder of the pipes as a volume, and the variable \
                 CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=40.",
            ),
            item(
                "the share is fixed",
                "It is read when the job begins to use the GPU and cannot change afterwards: a job that has converged keeps its share, \
                 and other jobs cannot use what it leaves idle beyond their own shares.",
            ),
            item(
                "jobs are not isolated",
                "A job that causes a GPU fault can end all jobs on that GPU. Memory is limited only by CUDA_MPS_PINNED_DEVICE_MEM_LIMIT.",
            ),
            item("one user", "On most GPUs MPS serves the processes of one user at a time; those of another wait."),
        ],
    }
}

fn test_status() -> Section {
    Section {
        heading: "STATUS",
        parts: vec![paragraph(
            "Duty cycle and MPS have been tested on real cgroups and engines with a stand-in for NVIDIA's library, but not yet on a real \
             GPU. integration/gpu/check in the sources measures them on your GPU.",
        )],
    }
}
