//! The page for whoever shares the machine with people they do not trust: who can do what, and what an attacker can do all the same.

use super::{Section, Topic, item, paragraph};

pub(super) fn security() -> Topic {
    Topic {
        name: "security",
        about: "who can do what, what is trusted, what an attacker can do all the same",
        sections: vec![rights(), trust(), commands(), logs(), remains(), fences()],
    }
}

fn rights() -> Section {
    Section {
        heading: "WHO CAN DO WHAT",
        parts: vec![
            item(
                "root, and users in api.admins",
                "Everything: release, pin, restore, adopt, another policy, commands of any weight.",
            ),
            item(
                "members of the group flowcon (api.group)",
                "Look: names, labels, metrics, shares, and the last log line of each job that was understood. Change nothing.",
            ),
            item(
                "everybody with an account",
                "Have their own commands governed with `flowctl run -- COMMAND`, and see these with `flowctl ps`. Nothing else.",
            ),
            item(
                "whoever may use the engine's socket",
                "Everything, with or without flowcon: that socket is root's power over the machine. The labels of a container are therefore \
                 believed as far as they make sense.",
            ),
            item(
                "whoever can reach the port of flowctl metrics --listen",
                "Read names of jobs, metrics and shares, no log lines: on 127.0.0.1 that is every user of the machine and every container in \
                 the host's network, on another address whoever the network lets through. There is no password: put a firewall, or a \
                 proxy that asks for one, in front. A client has 5 seconds to ask and 30 for all, and 16 are served at once.",
            ),
        ],
    }
}

fn trust() -> Section {
    Section {
        heading: "WHAT IS TRUSTED",
        parts: vec![paragraph(
            "Trusted are the kernel, root, the engine, the configuration, and the state directory, which only root can enter. Nothing \
                 else: labels, logs, names, commands, environments, exit codes and whatever comes in at a socket are read as hostile. All \
                 of it is bounded in bytes, in number and in time, and the worst that it may do is that a job gets its fair share.",
        )],
    }
}

fn commands() -> Section {
    Section {
        heading: "COMMANDS OF USERS",
        parts: vec![
            paragraph(
                "flowctl run registers its command at a socket that everybody may use (/run/flowcon/flowcond-run.sock). The daemon asks \
                 the kernel, never the caller: the user by the credentials of the connection, the process by a descriptor of it, the \
                 cgroup by where that process lives. The process, its cgroup and the cgroup above must belong to that user, so that a \
                 user's commands compete with that user's commands only. Its end is the end of the last process in the cgroup. There is \
                 no folder that everybody may write to.",
            ),
            paragraph(
                "A user's command is called NAME@USER, so that nobody can take a name from another. Its forecasts come from earlier runs of \
                 the same user only.",
            ),
            paragraph(
                "Without being in api.admins a user may give no flowcon.min-share and a flowcon.weight of 1 at most, and have at most \
                 scopes.per-user commands with scopes.label-bytes of labels, those of their subordinate users (/etc/subuid) counted in. What is too much is refused before the command begins, with \
                 the reason; so is a flood of registrations or connections.",
            ),
        ],
    }
}

fn logs() -> Section {
    Section {
        heading: "LOGS",
        parts: vec![
            paragraph(
                "The daemon opens no path that a user names. The output of a command is memory of its flowctl run, which hands over a \
                 descriptor; anything else in its place (a file, a pipe, a device) is refused. The file of flowcon.log is read by that \
                 flowctl run, with the user's own rights. flowctl logs and flowctl top look before they open: no pipe or device of \
                 a user can hold them, also not root's.",
            ),
            paragraph(
                "flowcon.log of a container is resolved inside the container, whatever its links say, and must be a regular file. Of \
                 commands and environments only a number and the name of its option are kept.",
            ),
        ],
    }
}

fn remains() -> Section {
    Section {
        heading: "WHAT AN ATTACKER CAN DO ALL THE SAME",
        parts: vec![
            item(
                "lie in a log",
                "A log that always improves gets its job more CPU: at the cost of jobs below the same cgroup, which for a command are its \
                 user's own, and for a container those of people who may use the engine. The others keep their floor (policy.floor).",
            ),
            item(
                "use the machine",
                "Governing is no fence: how much CPU a user gets in all is decided by the kernel, by the user's slice.",
            ),
            item(
                "stop their own job from being governed",
                "By ending its flowctl run, by a limit of their own, by a log without numbers. It then has its fair share.",
            ),
        ],
    }
}

fn fences() -> Section {
    Section {
        heading: "THE DAEMON'S OWN FENCES",
        parts: vec![
            paragraph(
                "It talks to the engine to list and inspect labelled containers, to read their logs, and to change the limits of \
                 flowcon-limits(7); nothing else. Its unit gives it five capabilities, a read-only system, no devices and no network at \
                 all. It is written without unsafe code. `flowcond restore` needs no daemon.",
            ),
            paragraph(
                "What this page says is tried, as a user without rights against a running daemon, by integration/attack in the source.",
            ),
        ],
    }
}
