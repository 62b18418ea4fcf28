//! The topic `cluster`: several machines on Docker Swarm.

use super::{Part, Section, Topic, item, paragraph};

pub(super) fn cluster() -> Topic {
    Topic {
        name: "cluster",
        about: "several machines on Docker Swarm: submit, place, move, drain, and lost nodes",
        sections: vec![getting_started(), jobs(), labels(), queue(), moves(), loss(), rented(), never(), agents()],
    }
}

fn getting_started() -> Section {
    Section {
        heading: "GETTING STARTED",
        parts: vec![
            paragraph(
                "On a Docker Swarm whose nodes run flowcond, start an agent on every node and the coordinator on the managers:",
            ),
            Part::Code(
                "flowcoord agent           # on every node, as root: the unit flowcoord-agent.service\n\
                 flowcoord run             # on every manager: the unit flowcoord.service; only the one on Swarm's leader acts\n\
                 flowctl cluster status    # on a manager",
            ),
            paragraph(
                "To try it first, run `flowcoord demo` as root: it starts three engines on this machine, forms a Swarm of them, runs the same \
                 trainings with plain sharing and governed, and removes everything.",
            ),
            paragraph(
                "The coordinator is stateless: its state is stored in Swarm as labels flowcon.cluster.* on services, written by \
                 compare-and-swap. It can be killed at any time; the next one continues from there. If flowcon is removed, Swarm keeps running \
                 the services where they are.",
            ),
            paragraph(
                "`flowctl cluster doctor`, as root on a manager, checks the coordinator, the certificates, and the agent, version and clock of \
                 every node, and says how to fix each problem. Dashboard, alerts and scrape configuration for Prometheus are in config/.",
            ),
        ],
    }
}

fn jobs() -> Section {
    Section {
        heading: "JOBS",
        parts: vec![
            paragraph("A worker is a service with 0 or 1 replicas. Submit one with flowctl or with docker:"),
            Part::Code(
                "flowctl cluster submit --name resnet --image registry/train:1 --gpus 1 --checkpoint saved:/saved -- python train.py\n\
                 docker service create --name resnet --replicas 0 --restart-condition on-failure --restart-max-attempts 3 \\\n\
                 \x20   --label flowcon.queue=true --container-label flowcon.enable=true registry/train:1 python train.py",
            ),
            paragraph(
                "The restart condition must not be any (Swarm's default), or a finished training would restart for ever. A job with a \
                 checkpoint must save its state on SIGTERM and resume from it when it starts. A job ends when its process exits; `flowctl \
                 cluster history` shows its exit code.",
            ),
            paragraph(
                "A service that already runs without a pin to a node (created without --replicas 0) is not managed until it is scaled to 0. \
                 Then it is queued and proven gone like any job, and keeps its local checkpoint.",
            ),
            paragraph(
                "Commands name a job by its service (name or id; the first 6 characters of the id suffice if they are unique) or by its \
                 gang. A command for a gang applies to all workers that have not ended.",
            ),
        ],
    }
}

fn labels() -> Section {
    Section {
        heading: "LABELS OF A SERVICE",
        parts: vec![
            item("flowcon.queue=true", "It is a job. Services without this label are never touched."),
            item(
                "flowcon.checkpoint=VOLUME",
                "The volume with its saved state. A local volume is copied when the job moves.",
            ),
            item(
                "flowcon.stop-grace=DURATION",
                "How long it may take to save and stop. Passed to Swarm when the job starts, unless its --stop-grace-period is already longer. \
                 Default: 2m with a checkpoint, else Swarm's 10s.",
            ),
            item("flowcon.movable=true|false", "Whether it may be moved. Default: true if it has a checkpoint."),
            item(
                "flowcon.gang=NAME",
                "The gang that this worker belongs to: all workers start together or not at all.",
            ),
            item(
                "flowcon.workers-min=N, flowcon.workers-max=N",
                "The minimum and maximum number of workers of its gang. Set the minimum if the services are created one after another: \
                 without it, the services that exist are taken as the whole gang.",
            ),
            item("flowcon.priority=1…100[/DECAY]", "Its priority, and the part of it that is lost over time, 0 to 1."),
            item(
                "flowcon.deadline=DURATION|TIME",
                "When it should end, with queue = \"deadlines\": a duration after its submission, or a time such as 2026-01-31T18:00Z.",
            ),
            item("flowcon.duration=DURATION", "Your estimate of its duration on the resources that it reserves."),
            item("flowcon.after=JOB,…", "It waits until these jobs have ended with exit code 0."),
            item("flowcon.on-node-loss=wait|restart", "What happens to it when its node is lost; see A LOST NODE."),
        ],
    }
}

fn queue() -> Section {
    Section {
        heading: "QUEUE",
        parts: vec![
            paragraph(
                "Jobs start in the order of submission, more important jobs first; a job that does not fit is skipped. All workers of a gang \
                 start together or not at all. If no job waits, elastic jobs (workers-min below workers-max) get more workers, and give them up \
                 again for a more important job. If a worker of a gang is missing because it was paused, failed to start or lost its node, \
                 the whole gang saves, stops, and later resumes as a whole.",
            ),
            paragraph(
                "With reclaim = true in [cluster] of flowcoord.toml, whole jobs are stopped for a more important job that does not fit \
                 otherwise: only jobs that save their state, and all workers of a gang or none. They wait in the queue and resume later.",
            ),
            paragraph(
                "With queue = \"deadlines\", jobs are ordered by their latest start: the deadline minus the duration (flowcon.duration, or \
                 that of earlier trainings). A job without a deadline should start overtaken-for (10m) after its submission. If jobs would be \
                 late, other orders are tried to reduce the lateness, weighted by priority. A job whose latest start is more than \
                 overtaken-for ago goes before all others, so that no job waits for ever. A job gets the cheapest nodes with room, by \
                 their label flowcon.price (per hour). Running jobs are not stopped, and elastic jobs keep their initial size. `flowctl cluster \
                 explain JOB` shows the deadline, the expected end and whether the job is in time; there is no estimate for a job of unknown \
                 duration, nor for the jobs behind it.",
            ),
        ],
    }
}

fn rented() -> Section {
    Section {
        heading: "RENTED NODES",
        parts: vec![
            paragraph(
                "With close-after in [nodes] of flowcoord.toml, the coordinator closes idle nodes and opens them again for waiting jobs. \
                 It only does so with nodes that have the label flowcon.rented=true and are not managers:",
            ),
            Part::Code("docker node update --label-add flowcon.rented=true --label-add flowcon.price=2.50 NODE"),
            paragraph(
                "An idle node (without jobs, and without the local checkpoint of an unfinished job) is set to availability drain after that \
                 time, and close-command is run with its name; Swarm moves other services away. For a job that does not fit elsewhere (a \
                 gang counts as a whole), open-command is run and the node is set to active, the cheapest by flowcon.price first. A command \
                 that fails is retried later, and `flowctl cluster status` says so. The last node stays open. Keep results that must outlive \
                 a node in shared storage.",
            ),
        ],
    }
}

fn moves() -> Section {
    Section {
        heading: "MOVES",
        parts: vec![
            paragraph(
                "A job is moved if that shortens completion times by at least twice the cost of the move, if its node is drained (`flowctl \
                 cluster drain NODE --wait`), or by hand (`flowctl cluster move JOB NODE`). It never runs on more than one node at a time:",
            ),
            item("stopping", "It is scaled to 0, receives SIGTERM and saves its state."),
            item(
                "proof",
                "The agent of every node where it ever ran attests that none of its processes is alive. Without a reply there is no proof: \
                 the move waits, and its status says so.",
            ),
            item(
                "carrying",
                "Its local checkpoint is copied from agent to agent, with a SHA-256, and becomes visible only when it is complete. The agents \
                 attest again after that; if a process was started or wrote in between, it is copied again. The job's state in the source's \
                 flowcond (learning curve, units done and cost per unit) is transferred too, so that the target can rank the job before its \
                 first line. If that fails, the target learns it again and the move continues.",
            ),
            item(
                "starting",
                "It is pinned to the new node and scaled to 1. The move is complete when progress is read there.",
            ),
            paragraph(
                "If it does not start there, it is moved back by the same steps, and `flowctl cluster explain JOB` shows the reason. A move \
                 by hand to a node that accepts no jobs, violates a constraint or is too small even when empty is refused at once.",
            ),
        ],
    }
}

fn loss() -> Section {
    Section {
        heading: "A LOST NODE",
        parts: vec![
            paragraph(
                "A node that does not reply may be off, or cut off from the network with its jobs still running. Its jobs therefore wait until \
                 it is back. If it is switched off for good, say so: `flowctl cluster node-is-off JOB NODE`. A paused job stays paused, and one \
                 that has ended is left alone.",
            ),
            paragraph(
                "With flowcon.on-node-loss=restart, the agent on that node stops the job when it has had no contact with a manager for the \
                 time of a lease, and the job starts elsewhere after lease, grace and lease-margin. This is safe as long as the node is off, or \
                 its agent and kernel are alive. It is not safe if the agent was killed while the job kept running: if that is a concern, \
                 use wait.",
            ),
        ],
    }
}

fn never() -> Section {
    Section {
        heading: "WHAT IT NEVER DOES",
        parts: vec![
            paragraph(
                "The coordinator touches no service without the label and writes no limits (each node's flowcond does). It starts no job \
                 before it is proven gone elsewhere, and stops only jobs that move, are paused, make room for a more important job, or lost \
                 their lease.",
            ),
            paragraph(
                "It does not copy sockets, devices and file capabilities in a checkpoint. Volumes of other drivers need no copy and are left in \
                 place. A locked Swarm (autolock) keeps its key encrypted: set certificate, key and authority in flowcoord.toml.",
            ),
        ],
    }
}

fn agents() -> Section {
    Section {
        heading: "AGENTS",
        parts: vec![
            paragraph(
                "Agents listen on TCP port 7951 of the node's address in the Swarm, with the certificate that Swarm issues to each node. They \
                 accept a fixed set of requests, only from managers of the same Swarm; a volume is sent only to the node that a manager offered \
                 it to. `flowcond` itself has no network access.",
            ),
            paragraph(
                "An agent must see the processes of its engine's containers, or it would consider every job gone: in a separate PID namespace \
                 it refuses to reply, and logs the reason. Run the unit, or a container with --pid=host and --network=host. A Swarm service \
                 always has a separate PID namespace; a stack file that starts such a container on each node is \
                 /usr/share/doc/flowcon/examples/flowcoord-agents.yaml: `FLOWCOORD_IMAGE=registry.example/flowcoord:1 docker stack deploy \
                 --compose-file flowcoord-agents.yaml flowcon`.",
            ),
        ],
    }
}
