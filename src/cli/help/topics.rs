//! The pages about what is no command. Facts that the code holds (labels) are taken from there.

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
        about: "what a container's labels say to the governor",
        sections: vec![
            Section { heading: "LABELS", parts: LABELS.iter().map(item).collect() },
            Section {
                heading: "NOTES",
                parts: vec![
                    paragraph(
                        "The log is understood without configuration; `flowctl check-log FILE` shows how. The labels that name the metric, \
                         the pattern or the total are for logs that are read wrongly.",
                    ),
                    paragraph(
                        "Where the log prints no total, the number is read from what runs: an option (--epochs 50, max_steps=1000), a \
                         variable (EPOCHS=90), or a JSON, YAML or TOML file that the command names. It counts less than the log and \
                         flowcon.total, `flowctl status` marks it (12/~50), and it is dropped when the job runs past it. Only the \
                         number and its name are kept.",
                    ),
                    paragraph(
                        "A log is read at once if each report is one line that names its numbers: \"epoch 3/40 train_loss=0.412 \
                         val_loss=0.437\". Print how many epochs there will be beside the epoch, each number as name=value, the same line \
                         each time, and flush it (PYTHONUNBUFFERED=1).",
                    ),
                    paragraph(
                        "`flowctl check-log FILE` also lists what else could be read, each with the label that chooses it, such as \
                         flowcon.metric=val_loss. \"valid loss\" is the loss of the validation where several are called loss. Of a \
                         quantity printed for training and validation, the validation is read if it improves and is printed \
                         about as often.",
                    ),
                    paragraph(
                        "flowcon.pattern is matched against every line and must be cheap: a pattern of more than 256 states is refused (a{9} \
                         has nine), and of a line it sees the first 256 bytes at least, the first 2 KiB if it is short. \\w, \\d and \\s \
                         mean ASCII. A log that costs more than 2 % of a core to read, or grows by more than 4 MiB a second, is skipped \
                         in parts, and `flowctl status` says so.",
                    ),
                    paragraph(
                        "A label that cannot be obeyed is ignored, and `flowctl status` and `flowctl explain JOB` say why. Labels of a \
                         running container cannot change. A command gets them with `flowctl run --label KEY=VALUE -- COMMAND`.",
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
        about: "how the shares of the node are decided",
        sections: vec![
            Section {
                heading: "POLICIES",
                parts: vec![
                    item(
                        "balanced",
                        "The default. Jobs are ranked by the CPU time to their next milestone: 95 % of final quality, or completion. The policy \
                         estimates that time from the log and the CPU used, and gives most CPU to the job with the best credit per CPU-second. \
                         Every job keeps a floor. A job without progress in its log gets an equal share; a job whose forecasts keep failing \
                         gets at most that. `policy.objective` weighs the two: quality, \
                         balanced, completion, or a number from 0 (quality) to 1 (completion).",
                    ),
                    item(
                        "balanced, when the log does not say how long the training will be",
                        "The number is taken from the job's command, environment or configuration file where it stands there (`flowctl \
                         explain JOB` says where). Where it stands nowhere, CPU is lent: a job that still learns gets more and gives it \
                         back afterwards, so that it reaches its quality sooner and completes as it would with plain sharing.",
                    ),
                    item(
                        "flowcon",
                        "Algorithms 1 and 2 of the FlowCon paper. Growth efficiency is the improvement of the metric, as a part of the \
                         range seen so far, per CPU-second. Below policy.growth-threshold a job moves New, Watching, Completing; above it \
                         back to New. Shares follow growth; when all have converged they compete freely. The lists are shown under every \
                         policy; only flowcon acts on them.",
                    ),
                    item("fair", "Observes and changes nothing: the dry run."),
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
                heading: "WHO COMPETES WITH WHOM",
                parts: vec![paragraph(
                    "Shares are planned among the jobs that want the same processors (cpuset, affinity) below the same cgroup (slice, \
                     cgroup parent): the kernel compares weights nowhere else. What neighbours use that are not governed is \
                     not planned with. The weights that the containers were started with (docker's CPU shares) count: they are what plain \
                     sharing is, and their sum is kept. `flowctl explain JOB` tells a job's competitors and cores.",
                )],
            },
            Section {
                heading: "MEASURING THE GAIN",
                parts: vec![
                    paragraph(
                        "`flowctl report` estimates what plain sharing would have given. To measure it, run a switchback experiment: \
                         policy.holdback = 0.1 makes one tenth of the time control periods, in blocks of policy.holdback-block chosen by a \
                         hash of the clock. In a control period every job has its original limits; only a pinned share stays. The report \
                         gives a figure after six control periods: about 5 hours with 0.1 and blocks of 5 minutes.",
                    ),
                    paragraph(
                        "`flowctl status`, `flowctl top` and `flowctl explain JOB` show that a control period is on and until when; `flowctl events` shows when it begins \
                         and ends. A restart does not change which blocks are control periods; a reload of either key takes effect at once. \
                         A released or held job stays as it is.",
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
        about: "which limits are written, and what is never done",
        sections: vec![
            Section {
                heading: "LIMITS",
                parts: vec![
                    item(
                        "cpu.weight (cgroup v1: cpu.shares)",
                        "The share. Soft: what a job leaves idle flows to the others. The sum of the original weights is kept among the jobs \
                         that compete, so that neighbours without the label neither gain nor lose.",
                    ),
                    item(
                        "cpu.max (docker's --cpus)",
                        "Only under policy.enforcement = \"quota\", and never below policy.quota-floor cores. An owner's own cap stays.",
                    ),
                    item(
                        "memory.low, memory.high",
                        "The memory of growing jobs is protected, that of converged jobs gently squeezed above its working set, and only \
                         while memory pressure (PSI) is known and low. Needs cgroup v2. policy.memory = false turns it off.",
                    ),
                    item(
                        "io.weight",
                        "Follows the CPU share where the kernel has one, with its own sum of originals. policy.io = false turns it off.",
                    ),
                ],
            },
            Section {
                heading: "WHAT IS NEVER DONE",
                parts: vec![
                    paragraph(
                        "A container without the label or an operator's `flowctl adopt NAME` is never touched, and no job is ever stopped.",
                    ),
                    paragraph(
                        "No limit is changed before its original is on disk. `flowcond restore` puts all back, after any crash, without a \
                         daemon; so does stopping the daemon, unless on-exit = \"keep\".",
                    ),
                    paragraph(
                        "What somebody else set meanwhile is not overwritten: the job is left alone, `flowctl status` says why, and \
                         `flowctl govern JOB` takes the new value as its original. What the system reverted (an engine restart, a \
                         `systemctl daemon-reload`) is decided anew at the next tick.",
                    ),
                    paragraph("Missing, late or wrong data never tightens a limit."),
                ],
            },
            Section {
                heading: "UNDO",
                parts: vec![Part::Code(
                    "flowctl release JOB          # this job: original limits, left alone\n\
                     flowctl restore            # all of them\n\
                     systemctl stop flowcond    # all of them, and no daemon\n\
                     flowcond restore           # after a crash, when no daemon runs",
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
