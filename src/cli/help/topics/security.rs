//! The topic `security`: permissions, trust, and what an attacker can still do.

use super::{Section, Topic, item, paragraph};

pub(super) fn security() -> Topic {
    Topic {
        name: "security",
        about: "permissions, trust, and what an attacker can still do",
        sections: vec![permissions(), trust(), commands(), logs(), attacks(), sandbox()],
    }
}

fn permissions() -> Section {
    Section {
        heading: "PERMISSIONS",
        parts: vec![
            item(
                "root, and users in api.admins",
                "Full control: release, pin, restore, adopt, change the policy, run commands of any weight.",
            ),
            item(
                "members of the group flowcon (api.group)",
                "Read-only access: names, labels, metrics, shares, and the last parsed log line of each job.",
            ),
            item(
                "every user with an account",
                "May have their own commands governed with `flowctl run -- COMMAND`, and list them with `flowctl ps`. Nothing else.",
            ),
            item(
                "users of the engine's socket",
                "Full control, with or without flowcon: access to that socket is equivalent to root. The labels of a container are therefore \
                 trusted if they are valid.",
            ),
            item(
                "clients of the port of flowctl metrics --listen",
                "Read names of jobs, metrics and shares, but no log lines. On 127.0.0.1 these are all users of the machine and all containers \
                 in the host's network; on another address, every client that the network admits. There is no password: put a firewall, or \
                 a proxy with authentication, in front. A client has 5 seconds to send its request and 30 seconds in all, and 16 are served \
                 at once.",
            ),
        ],
    }
}

fn trust() -> Section {
    Section {
        heading: "WHAT IS TRUSTED",
        parts: vec![paragraph(
            "The kernel, root, the engine, the configuration, and the state directory, which only root can enter, are trusted. \
                 Everything else is treated as hostile: labels, logs, names, commands, environments, exit codes and all data from sockets. \
                 It is bounded in bytes, number and time, and the worst effect that it can have is that a job gets its fair share.",
        )],
    }
}

fn commands() -> Section {
    Section {
        heading: "COMMANDS OF USERS",
        parts: vec![
            paragraph(
                "flowctl run registers its command at a socket that every user may open (/run/flowcon/flowcond-run.sock). The daemon gets \
                 all identities from the kernel, never from the caller: the user from the credentials of the connection, the process from \
                 a pidfd, the cgroup from that process. The process, its cgroup and the parent cgroup must belong to that user, so that a \
                 user's commands compete only with each other. A command ends when the last process in its cgroup ends. There is \
                 no world-writable folder.",
            ),
            paragraph(
                "A user's command is called NAME@USER, so that users cannot take each other's names. Its forecasts use only prior runs of \
                 the same user.",
            ),
            paragraph(
                "A user who is not in api.admins may not set flowcon.min-share, may set flowcon.weight to at most 1, and may have at most \
                 scopes.per-user commands with scopes.label-bytes of labels, including those of their subordinate users (/etc/subuid). \
                 Commands beyond these limits are rejected before they start, with the reason; so are floods of registrations or \
                 connections.",
            ),
        ],
    }
}

fn logs() -> Section {
    Section {
        heading: "LOGS",
        parts: vec![
            paragraph(
                "The daemon opens no path that a user names. The output of a command is kept in memory by its flowctl run, which passes a \
                 descriptor to the daemon; any other descriptor (a file, a pipe, a device) is rejected. The file of flowcon.log is read by \
                 that flowctl run, with the permissions of the user. flowctl logs and flowctl top check the file type before they open a \
                 file, so a user's pipe or device cannot block them, not even when root runs them.",
            ),
            paragraph(
                "flowcon.log of a container is resolved inside the container, including symbolic links, and must be a regular file. Of \
                 commands and environments, only a number and the name of its option are kept.",
            ),
        ],
    }
}

fn attacks() -> Section {
    Section {
        heading: "WHAT AN ATTACKER CAN STILL DO",
        parts: vec![
            item(
                "forge a log",
                "A log that always improves gets its job more CPU, at the cost of jobs below the same cgroup: for a command, jobs of the \
                 same user; for a container, jobs of users of the engine. The others keep their floor (policy.floor).",
            ),
            item(
                "use CPU",
                "Governing is not a quota: the total CPU of a user is decided by the kernel, by the user's slice.",
            ),
            item(
                "keep their own job from being governed",
                "By ending its flowctl run, by setting a limit, or by a log without numbers. The job then gets its fair share.",
            ),
        ],
    }
}

fn sandbox() -> Section {
    Section {
        heading: "THE DAEMON'S SANDBOX",
        parts: vec![
            paragraph(
                "The daemon uses the engine only to list and inspect labelled containers, to read their logs, and to change the limits of \
                 flowcon-limits(7). Its unit gives it five capabilities, a read-only system, no devices and no network. It contains no \
                 unsafe code. `flowcond restore` needs no daemon.",
            ),
            paragraph(
                "integration/attack in the sources tests these claims as an unprivileged user against a running daemon.",
            ),
        ],
    }
}
