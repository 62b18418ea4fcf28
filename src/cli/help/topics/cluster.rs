//! The page for whoever has several machines: what the coordinator does, what a job must be, and what a lost node means.

use super::{Part, Section, Topic, item, paragraph};

pub(super) fn cluster() -> Topic {
    Topic {
        name: "cluster",
        about: "several machines on Docker Swarm: submit, place, move, drain, and what a lost node means",
        sections: vec![begin(), jobs(), labels(), moves(), loss(), never(), agents()],
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
                "The coordinator keeps no state of its own: all of it is labels flowcon.cluster.* on services, written by compare-and-swap in \
                 Swarm's own store. Kill it at any instant, and the next one goes on from there. Removing flowcon leaves services that Swarm \
                 goes on running where they are.",
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
            item("flowcon.stop-grace=DURATION", "How long it may take to save and stop; 2m unless told."),
            item("flowcon.movable=true|false", "Whether it may be moved; without it, if it has a checkpoint."),
            item("flowcon.gang=NAME", "The job that it is a worker of: all start together or not at all."),
            item(
                "flowcon.workers-min=N, flowcon.workers-max=N",
                "How many workers of its gang it needs, and how many help.",
            ),
            item(
                "flowcon.priority=1…100[/DECAY]",
                "How important it is, and which part of that is lost with time, 0 to 1.",
            ),
            item("flowcon.after=JOB,…", "It waits until these are done with exit code 0."),
            item("flowcon.on-node-loss=wait|restart", "What becomes of it when its node is lost; see below."),
        ],
    }
}

fn moves() -> Section {
    Section {
        heading: "MOVES",
        parts: vec![
            paragraph(
                "A job moves where that shortens completions by more than the move costs, from a node that is drained (`flowctl cluster \
                 drain NODE --wait`), or by hand (`flowctl cluster move JOB NODE`). At every instant it is alive on one node at most:",
            ),
            item("stopping", "It is scaled to 0, gets SIGTERM and saves."),
            item(
                "proof",
                "The agent of each node where it ever was attests that no process of it lives. No answer, no proof: it waits and says so.",
            ),
            item(
                "carrying",
                "Its local checkpoint is copied from agent to agent, with a SHA-256, and becomes visible only when whole.",
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
                "Not carried: extended attributes, sockets and devices in a checkpoint; volumes of other drivers stay where they are, and need \
                 not be carried. A locked Swarm (autolock) keeps its key encrypted: give certificate, key and authority in flowcoord.toml.",
            ),
        ],
    }
}

fn agents() -> Section {
    Section {
        heading: "AGENTS",
        parts: vec![paragraph(
            "Agents listen on TCP port 7951 of the node's address in the Swarm, with the certificate that Swarm gives each node. They answer a \
             closed list of requests, and only to managers of the same Swarm; a volume is sent only to the node that a manager offered it to. \
             `flowcond` itself has no network.",
        )],
    }
}
