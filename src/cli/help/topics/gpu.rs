//! The page about jobs that share a GPU: what is seen, what may be done about it, and what each way cannot do.

use super::{Part, Section, Topic, item, paragraph};

pub(super) fn gpu() -> Topic {
    Topic {
        name: "gpu",
        about: "jobs that share a GPU: what is seen, what may be done, and what each way cannot do",
        sections: vec![seeing(), duty_cycle(), mps(), untried()],
    }
}

fn seeing() -> Section {
    Section {
        heading: "SEEING",
        parts: vec![
            paragraph(
                "With NVIDIA's driver each job's part of a GPU's time and memory is shown: `flowctl status -o wide`, `flowctl top`, \
                 `flowctl explain JOB`, `flowctl metrics`. Nothing is done about it with gpu.control = \"off\", the default. In the unit, the \
                 daemon must be given the devices first: flowcon-operations(7), UNIT.",
            ),
            paragraph(
                "Part of the time is what the driver tells: in which a kernel of the job ran, however small. The driver tells no part of the \
                 time for the instances of a divided GPU (MIG).",
            ),
        ],
    }
}

fn duty_cycle() -> Section {
    Section {
        heading: "DUTY CYCLE",
        parts: vec![
            paragraph(
                "gpu.control = \"duty-cycle\": of the jobs that wait for one GPU, the one whose next milestone takes the fewest GPU-seconds is favoured. The others are frozen for \
                 parts of each period (gpu.freeze-at-most) by the kernel's cgroup freezer. At first they hardly run, and the favoured job \
                 shows its speed alone, in progress a second, as its log has it. Then they get more of the time for as long as it keeps 98 % \
                 of that speed, and half as much when it does not. The others go on for 3 % of the time at least, \
                 together; what a job has queued on the GPU is done in any case, so a step must be much shorter than a period.",
            ),
            item(
                "nobody is frozen",
                "Who is alone on its GPU, released or otherwise held, paused, or has a health check; and nobody \
                 at all where the favoured job prints no progress, under policy.name = \"fair\", and in a control period.",
            ),
            item(
                "nothing stays frozen",
                "A process of its own freezes and thaws. It thaws everything when the daemon ends, is killed, or hangs for four seconds; the \
                 daemon does when that process is killed. The journal knows beforehand who may be frozen: `flowcond restore` (which the \
                 unit runs after each end) and the next start thaw what is left when both are killed.",
            ),
            item(
                "it cannot take back what is queued",
                "Kernels that a job has handed to the GPU before it was frozen still run. A job that queues seconds of work is held back less \
                 than its part says.",
            ),
            item(
                "it does not give memory",
                "A frozen job keeps its GPU memory. Jobs that do not fit beside each other fail as they do without flowcon.",
            ),
            item(
                "the engine takes a freeze for a pause",
                "At such a moment docker exec and docker pause fail; half a second later they work. What an engine or anybody else has \
                 frozen is left to them. A command that is frozen by hand in the very moment of our freeze is thawed with it.",
            ),
            item(
                "timeouts go on",
                "A job whose parts on other machines wait for it, as in distributed training, holds them up while it is frozen. Exclude it: \
                 `flowctl release JOB`.",
            ),
        ],
    }
}

fn mps() -> Section {
    Section {
        heading: "MPS",
        parts: vec![
            paragraph(
                "gpu.control = \"mps\": NVIDIA's Multi-Process Service lets kernels of several processes run at the same time, each on a part \
                 of the GPU's processors. flowcon freezes nobody then; `flowctl doctor` looks for the control daemon. The part is given at a \
                 job's start:",
            ),
            Part::Code("flowctl run --gpu-share 40% -- python train.py"),
            item(
                "before",
                "Start the control daemon once, as the user of the jobs: nvidia-cuda-mps-control -d. Where its pipes are not in \
                 /tmp/nvidia-mps, CUDA_MPS_PIPE_DIRECTORY names their folder, for it and for the jobs.",
            ),
            item(
                "a container",
                "Wants the same from docker run: --ipc host, the folder of the pipes as a volume, and the variable \
                 CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=40.",
            ),
            item(
                "the part is for good",
                "It is read when the job begins to use the GPU, and cannot change afterwards: a job that has converged keeps what it has, \
                 and what it leaves idle goes to nobody beyond their own parts.",
            ),
            item(
                "jobs are not apart",
                "A job that breaks the GPU can end all jobs on it. Memory is divided only as far as CUDA_MPS_PINNED_DEVICE_MEM_LIMIT says.",
            ),
            item("one user", "On most GPUs MPS serves the processes of one user at a time; those of another wait."),
        ],
    }
}

fn untried() -> Section {
    Section {
        heading: "NOT YET TRIED",
        parts: vec![paragraph(
            "Duty cycle and MPS have been tested with a stand-in for NVIDIA's library, on real cgroups and engines, and not yet on a real GPU. \
             integration/gpu/check in the sources measures it on yours.",
        )],
    }
}
