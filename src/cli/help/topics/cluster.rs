//! The page for whoever has several machines: what the coordinator does, what a job must be, and what a lost node means.

use super::{Part, Section, Topic, item, paragraph};

pub(super) fn cluster() -> Topic {
    Topic {
        name: "cluster",
        about: "several machines on Docker Swarm: submit, place, move, drain, and what a lost node means",
        sections: vec![begin(), jobs(), labels(), queue(), moves(), loss(), rented(), never(), agents()],
    }
}

fn begin() -> Section {
    Section {
        heading: "BEGIN",
        parts: vec![
            paragraph(
                "On a Docker Swarm whose nodes run flowcond, start an agent on every node and the coordinator on the managers:",
            ),
            Part::Code(
                "flowcoord agent           # on every node, as root: the unit flowcoord-agent.service\n\
                 flowcoord run             # on every manager: the unit flowcoord.service; the one on Swarm's leader acts\n\
                 flowctl cluster status    # on a manager",
            ),
            paragraph(
                "To see it first: `flowcoord demo`, as root, makes three engines on this machine, forms a Swarm of them, runs the same trainings \
                 plainly and governed, and removes everything.",
            ),
            paragraph(
                "The coordinator keeps no state of its own: all of it is labels flowcon.cluster.* on services, written by compare-and-swap in \
                 Swarm's own store. Kill it at any instant, and the next one goes on from there. Removing flowcon leaves services that Swarm \
                 goes on running where they are.",
            ),
            paragraph(
                "`flowctl cluster doctor`, as root on a manager, checks the coordinator, the certificates, and agent, version and clock of every \
                 node, and says how to fix what it finds. Dashboard, alerts and scrape configuration for Prometheus are in config/.",
            ),
        ],
    }
}

fn jobs() -> Section {
    Section {
        heading: "JOBS",
        parts: vec![
            paragraph(
                "A worker is a service with 0 or 1 replicas. Queue one with a command, or with Docker's own means:",
            ),
            Part::Code(
                "flowctl cluster submit --name resnet --image registry/train:1 --gpus 1 --checkpoint saved:/saved -- python train.py\n\
                 docker service create --name resnet --replicas 0 --restart-condition on-failure --restart-max-attempts 3 \\\n\
                 \x20   --label flowcon.queue=true --container-label flowcon.enable=true registry/train:1 python train.py",
            ),
            paragraph(
                "The restart condition must not be any (Swarm's default), or a training that has ended would begin again for ever. A job that is \
                 saved must do so on SIGTERM, and go on from there when it starts. It is over when its process exits; `flowctl cluster \
                 history` has its exit code.",
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
                "The volume that it saves its state in. A local one is carried along when it moves.",
            ),
            item(
                "flowcon.stop-grace=DURATION",
                "How long it may take to save and stop. Swarm is told so when the job starts, unless its --stop-grace-period is longer already. \
                 Without both: 2m with a checkpoint, else Swarm's 10s.",
            ),
            item("flowcon.movable=true|false", "Whether it may be moved; without it, if it has a checkpoint."),
            item("flowcon.gang=NAME", "The job that it is a worker of: all start together or not at all."),
            item(
                "flowcon.workers-min=N, flowcon.workers-max=N",
                "How many workers of its gang it needs, and how many help. Give the first with services that are created one after another: \
                 without it those that are there are all.",
            ),
            item(
                "flowcon.priority=1…100[/DECAY]",
                "How important it is, and which part of that is lost with time, 0 to 1.",
            ),
            item(
                "flowcon.deadline=DURATION|TIME",
                "When it should have ended, with queue = \"deadlines\": so long after its submission, or an instant as 2026-01-31T18:00Z.",
            ),
            item("flowcon.duration=DURATION", "How long it takes on what it reserves, as you believe."),
            item("flowcon.after=JOB,…", "It waits until these are done with exit code 0."),
            item("flowcon.on-node-loss=wait|restart", "What becomes of it when its node is lost; see below."),
        ],
    }
}

fn queue() -> Section {
    Section {
        heading: "QUEUE",
        parts: vec![
            paragraph(
                "Jobs start in the order of their arrival, the first that fits; more important ones before them. All workers of a gang start \
                 together or none. Where nobody waits, elastic jobs (workers-min below workers-max) get more workers, and give them up \
                 again for a more important job. A gang that lacks a worker, because it was paused, failed to start or its node is lost, \
                 stops as a whole, saves, and goes on as a whole.",
            ),
            paragraph(
                "With reclaim = true in [cluster] of flowcoord.toml whole jobs are stopped for a more important one that fits in no other \
                 way: only jobs that save their state, all workers of a gang or none. They wait in the queue and go on later.",
            ),
            paragraph(
                "With queue = \"deadlines\" the job goes first that must start first: its deadline less the time that it takes (flowcon.duration, or \
                 what trainings here have needed). A job without a deadline should start overtaken-for (10m) after its submission. Where that makes \
                 jobs late, other orders are tried for less lateness, each second of it counted by the job's priority. Whoever should have \
                 started overtaken-for ago stands before all others, so that nobody waits for ever. A job gets the cheapest nodes with room, by their label \
                 flowcon.price (per hour). What runs is not stopped, and elastic jobs stay as they start. `flowctl cluster explain JOB` \
                 says the deadline, the expected end and whether it is in time; nothing is expected of a job of which nobody \
                 knows how long it takes, nor of those behind it.",
            ),
        ],
    }
}

fn rented() -> Section {
    Section {
        heading: "RENTED NODES",
        parts: vec![
            paragraph(
                "With close-after in [nodes] of flowcoord.toml the coordinator closes nodes that nobody needs, and opens them for jobs that wait: \
                 those with the label flowcon.rented=true that are no managers, and no others:",
            ),
            Part::Code("docker node update --label-add flowcon.rented=true --label-add flowcon.price=2.50 NODE"),
            paragraph(
                "An idle node (nothing of a job on it, nor the local checkpoint of one that is not done) is set to availability drain after that \
                 time, and close-command is run with its name; Swarm moves what else runs there. For a job that has no room elsewhere, \
                 all workers of a gang counted, open-command is run and the node set to active: the cheapest by flowcon.price first. A command that fails is \
                 run again later, and `flowctl cluster status` says so. The last node stays open. Results that must outlive a node belong into \
                 shared storage.",
            ),
        ],
    }
}

fn moves() -> Section {
    Section {
        heading: "MOVES",
        parts: vec![
            paragraph(
                "A job moves where that shortens completions by twice what the move costs, from a node that is drained (`flowctl cluster \
                 drain NODE --wait`), or by hand (`flowctl cluster move JOB NODE`). At every instant it is alive on one node at most:",
            ),
            item("stopping", "It is scaled to 0, gets SIGTERM and saves."),
            item(
                "proof",
                "The agent of each node where it ever was attests that no process of it lives. No answer, no proof: it waits and says so.",
            ),
            item(
                "carrying",
                "Its local checkpoint is copied from agent to agent, with a SHA-256, and becomes visible only when whole. The agents attest \
                 a second time after that; where anything came to life or wrote meanwhile, it is copied again. What the source's flowcond knows of the \
                 job goes with it (its learning curve, units done and what one costs), so that the target's ranks it before its first line. \
                 Where that fails, the target learns anew and the move goes on.",
            ),
            item(
                "starting",
                "It is pinned to the new node and scaled to 1; it counts as moved when progress is read there.",
            ),
            paragraph(
                "If it does not start there, it goes back by the same steps, and `flowctl cluster explain JOB` has the reason.",
            ),
        ],
    }
}

fn loss() -> Section {
    Section {
        heading: "A LOST NODE",
        parts: vec![
            paragraph(
                "A node that does not answer may be off, or cut off with its jobs running. So its jobs wait until it is back. If it is switched off \
                 for good, say so: `flowctl cluster node-is-off JOB NODE`.",
            ),
            paragraph(
                "With flowcon.on-node-loss=restart the agent there has promised to stop the job by itself when it hears no manager for the time of a lease, and \
                 the job starts elsewhere after lease, grace and lease-margin. That holds as long as the agent and the kernel of the lost node are \
                 alive or the node is off; a machine whose agent was killed while its job runs on breaks it. Where that is too much, keep wait.",
            ),
        ],
    }
}

fn never() -> Section {
    Section {
        heading: "WHAT IT NEVER DOES",
        parts: vec![
            paragraph(
                "It touches no service without the label, writes no limit (that is each node's flowcond), starts nothing that is not proven gone \
                 elsewhere, and stops nothing but jobs that move, are paused, make room for a more important job, or lost their lease.",
            ),
            paragraph(
                "Not carried: sockets, devices and file capabilities in a checkpoint; volumes of other drivers stay where they are, and need \
                 not be carried. A locked Swarm (autolock) keeps its key encrypted: give certificate, key and authority in flowcoord.toml.",
            ),
        ],
    }
}

fn agents() -> Section {
    Section {
        heading: "AGENTS",
        parts: vec![
            paragraph(
                "Agents listen on TCP port 7951 of the node's address in the Swarm, with the certificate that Swarm gives each node. They answer a \
                 closed list of requests, and only to managers of the same Swarm; a volume is sent only to the node that a manager offered it to. \
                 `flowcond` itself has no network.",
            ),
            paragraph(
                "An agent must see the processes of its engine's containers, or it would take every job for gone: in a PID namespace of its own \
                 it refuses to answer, and its log says so. Run the unit, or a container with --pid=host and --network=host. A Swarm service \
                 always has a PID namespace of its own; a stack file that starts such a container on each node is \
                 /usr/share/doc/flowcon/examples/flowcoord-agents.yaml: `FLOWCOORD_IMAGE=registry.example/flowcoord:1 docker stack deploy \
                 --compose-file flowcoord-agents.yaml flowcon`.",
            ),
        ],
    }
}
