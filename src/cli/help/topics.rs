//! The help topics. The list of labels is generated from the registry in `config`.

mod cluster;
mod gpu;
mod operations;
mod security;

use super::{Part, Section, Topic};
use crate::config::{LABEL_PREFIX, LABELS, Label};

pub(super) fn all() -> Vec<Topic> {
    vec![labels(), policy(), limits(), operations::operations(), gpu::gpu(), cluster::cluster(), security::security()]
}

fn labels() -> Topic {
    let item =
        |label: &Label| Part::Item(format!("{LABEL_PREFIX}{}={}", label.name, label.example), label.help.to_owned());
    Topic {
        name: "labels",
        about: "container labels that control how a job is governed",
        sections: vec![
            Section { heading: "LABELS", parts: LABELS.iter().map(item).collect() },
            Section {
                heading: "NOTES",
                parts: vec![
                    paragraph(
                        "Logs are parsed without configuration; `flowctl check-log FILE` shows the result. The labels that name the metric, \
                         the pattern or the total are only needed for logs that are parsed wrongly.",
                    ),
                    paragraph(
                        "If the log prints no total, it is taken from the job: an option (--epochs 50, max_steps=1000), a \
                         variable (EPOCHS=90), or a JSON, YAML or TOML file that the command names. The log and flowcon.total take \
                         precedence. `flowctl status` marks such a total (12/~50), and it is dropped when the job runs past it. Only the \
                         number and its name are kept.",
                    ),
                    paragraph(
                        "A log is parsed best if each report is one line that names its numbers: \"epoch 3/40 train_loss=0.412 \
                         val_loss=0.437\". Print the total number of epochs next to the epoch, each number as name=value, use the same \
                         format every time, and flush the output (PYTHONUNBUFFERED=1).",
                    ),
                    paragraph(
                        "`flowctl check-log FILE` also lists the other candidates, each with the label that selects it, such as \
                         flowcon.metric=val_loss. \"valid loss\" is the validation loss if several values are called loss. If a \
                         quantity is printed for training and validation, the validation value is used if it improves and is printed \
                         about as often.",
                    ),
                    paragraph(
                        "flowcon.pattern is matched against every line and must be cheap: a pattern of more than 256 states is rejected (a{9} \
                         has nine). It is matched against at least the first 256 bytes of a line, and against the first 2 KiB if it is \
                         short. \\w, \\d and \\s mean ASCII. A log that costs more than 2 % of a core to read, or grows by more than 4 MiB a \
                         second, is skipped in parts, and `flowctl status` says so.",
                    ),
                    paragraph(
                        "An invalid label is ignored, and `flowctl status` and `flowctl explain JOB` say why. The labels of a \
                         running container cannot change. Set the labels of a command with `flowctl run --label KEY=VALUE -- COMMAND`.",
                    ),
                ],
            },
            Section {
                heading: "EXAMPLES",
                parts: vec![Part::Code(
                    "docker run --label flowcon.enable=true --label flowcon.weight=2 IMAGE python train.py\n\
                     flowctl run --label flowcon.deadline=90m -- python train.py",
                )],
            },
        ],
    }
}

fn policy() -> Topic {
    Topic {
        name: "policy",
        about: "how CPU shares are decided",
        sections: vec![
            Section {
                heading: "POLICIES",
                parts: vec![
                    item(
                        "balanced",
                        "The default. Jobs are ranked by the CPU time to their next milestone: 95 % of final quality, or completion. The policy \
                         estimates that time from the log and the CPU used, and gives most CPU to the job with the best credit per CPU-second. \
                         Every job keeps a floor. A job without progress in its log gets an equal share; a job whose forecasts keep failing \
                         gets at most an equal share. `policy.objective` weighs the two milestones: quality, balanced, completion, or a number \
                         from 0 (quality) to 1 (completion).",
                    ),
                    item(
                        "balanced, if the log does not state the length of the training",
                        "The length is taken from the job's command, environment or configuration file, if it is stated there (`flowctl \
                         explain JOB` shows where). Otherwise CPU is lent: a job that still learns gets more CPU now and less later, so that \
                         it reaches its quality sooner and completes at the same time as with plain sharing.",
                    ),
                    item(
                        "flowcon",
                        "Algorithms 1 and 2 of the FlowCon paper. Growth efficiency is the improvement of the metric, as a part of the \
                         range seen so far, per CPU-second. Below policy.growth-threshold a job moves from New to Watching to Completing; \
                         above it, back to New. Shares follow growth; when all jobs have converged they compete freely. The lists are shown \
                         under every policy, but only flowcon acts on them.",
                    ),
                    item("fair", "A dry run: observes, and changes nothing."),
                ],
            },
            Section {
                heading: "WHEN IT DECIDES",
                parts: vec![paragraph(
                    "Every policy.interval, and sooner when a job starts or ends, or when a milestone is near. A decision that changes \
                     nothing writes nothing, and the next interval is twice as long, up to policy.max-interval. A start, an end, growth, \
                     a milestone or a change of pressure ends this back-off.",
                )],
            },
            Section {
                heading: "WHICH JOBS COMPETE",
                parts: vec![paragraph(
                    "Shares are planned among the jobs that use the same processors (cpuset, affinity) below the same cgroup (slice, \
                     cgroup parent), because the kernel compares weights only there. CPU used by containers that are not governed is \
                     not part of the plan. The containers' original weights (docker's CPU shares) define plain sharing, \
                     and their sum is kept. `flowctl explain JOB` shows a job's competitors and cores.",
                )],
            },
            Section {
                heading: "MEASURING THE GAIN",
                parts: vec![
                    paragraph(
                        "`flowctl report` estimates what plain sharing would have given. To measure it, run a switchback experiment: \
                         policy.holdback = 0.1 turns one tenth of the time into control periods, in blocks of policy.holdback-block chosen by a \
                         hash of the clock. In a control period every job has its original limits; only pinned shares are kept. The report \
                         gives a figure after six control periods: about 5 hours with 0.1 and blocks of 5 minutes.",
                    ),
                    paragraph(
                        "`flowctl status`, `flowctl top` and `flowctl explain JOB` show when the current control period ends; `flowctl events` \
                         shows when each begins and ends. A restart does not change which blocks are control periods; a reload of either key \
                         takes effect at once. Released and held jobs are not affected.",
                    ),
                ],
            },
            Section {
                heading: "EXAMPLES",
                parts: vec![Part::Code(
                    "flowctl explain JOB        # every number behind one job's share\n\
                     flowctl policy balanced --objective 1\n\
                     flowsim run random-10 --policy fair,flowcon,balanced",
                )],
            },
        ],
    }
}

fn limits() -> Topic {
    Topic {
        name: "limits",
        about: "which limits are written, and what flowcon never does",
        sections: vec![
            Section {
                heading: "LIMITS",
                parts: vec![
                    item(
                        "cpu.weight (cgroup v1: cpu.shares)",
                        "The share. A soft limit: CPU that a job leaves idle flows to the others. The sum of the original weights of competing \
                         jobs is kept, so that neighbours without the label neither gain nor lose.",
                    ),
                    item(
                        "cpu.max (docker's --cpus)",
                        "Only under policy.enforcement = \"quota\", and never below policy.quota-floor cores. A cap set by the owner is kept.",
                    ),
                    item(
                        "memory.low, memory.high",
                        "The memory of growing jobs is protected; the memory of converged jobs is gently squeezed above its working set, and \
                         only while memory pressure (PSI) is known and low. Needs cgroup v2. policy.memory = false turns it off.",
                    ),
                    item(
                        "io.weight",
                        "Follows the CPU share if the kernel supports it; the sum of the original I/O weights is kept. policy.io = false turns \
                         it off.",
                    ),
                ],
            },
            Section {
                heading: "WHAT FLOWCON NEVER DOES",
                parts: vec![
                    paragraph(
                        "It never touches a container that neither has the label nor was adopted with `flowctl adopt NAME`. It never stops a job.",
                    ),
                    paragraph(
                        "It changes no limit before the original is on disk. `flowcond restore` restores all limits after any crash, without a \
                         daemon; so does stopping the daemon, unless on-exit = \"keep\".",
                    ),
                    paragraph(
                        "It does not overwrite a limit that somebody else changed: the job is left alone, `flowctl status` says why, and \
                         `flowctl govern JOB` accepts the new value as the original. A limit that the system reverted (an engine restart, a \
                         `systemctl daemon-reload`) is decided again at the next tick.",
                    ),
                    paragraph("It never tightens a limit because of missing, late or wrong data."),
                ],
            },
            Section {
                heading: "UNDO",
                parts: vec![Part::Code(
                    "flowctl release JOB        # one job: original limits, left alone\n\
                     flowctl restore            # all jobs\n\
                     systemctl stop flowcond    # all jobs, and stop the daemon\n\
                     flowcond restore           # after a crash, without a daemon",
                )],
            },
        ],
    }
}

fn paragraph(words: &str) -> Part {
    Part::Paragraph(words.to_owned())
}

fn item(term: &str, meaning: &str) -> Part {
    Part::Item(term.to_owned(), meaning.to_owned())
}
