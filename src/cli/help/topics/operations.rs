//! The page for whoever runs the machine: install, upgrade, undo, what to do when, and who may do what.

use super::{Part, Section, Topic, item, paragraph};

pub(super) fn operations() -> Topic {
    Topic {
        name: "operations",
        about: "install, upgrade, undo, troubleshooting by symptom, the unit",
        sections: vec![install(), upgrade(), undo(), troubleshooting(), unit(), files()],
    }
}

fn install() -> Section {
    Section {
        heading: "INSTALL",
        parts: vec![
            paragraph(
                "Debian and its like, from the package; anything else from the tarball, whose programs are static:",
            ),
            Part::Code(
                "apt install ./flowcon_*.deb\n\
                 tar xf flowcon-*.tar.gz && flowcon-*/install.sh    # instead, where there is no apt\n\
                 systemctl enable --now flowcond\n\
                 flowctl doctor                                     # finds problems and says how to fix them",
            ),
            paragraph(
                "Installing starts nothing and changes no container. To look first, set policy.name = \"fair\": it observes and changes \
                 nothing. Without systemd: `flowcond --socket PATH --state-dir DIR`, as root.",
            ),
        ],
    }
}

fn upgrade() -> Section {
    Section {
        heading: "UPGRADE",
        parts: vec![
            paragraph(
                "Install the newer package over the old one. The service is restarted: original limits come back for the second that it \
                 takes, jobs go on, logs are read on where they were. on-exit = \"keep\" leaves the limits standing meanwhile. Your \
                 configuration is kept.",
            ),
            paragraph(
                "Going back to an older version: `systemctl stop flowcond` with the newer one first, so that nothing of it stands. A \
                 state directory of a later version is refused, never misread.",
            ),
        ],
    }
}

fn undo() -> Section {
    Section {
        heading: "UNDO",
        parts: vec![
            item(
                "one job",
                "`flowctl release JOB`: its original limits are back, and it is left alone until `flowctl govern JOB`.",
            ),
            item("all jobs", "`flowctl restore`, or `systemctl stop flowcond`."),
            item("after a crash", "`flowcond restore`, without a daemon. systemd does it by itself (ExecStopPost)."),
            item(
                "everything",
                "`apt purge flowcon`: limits are back, and nothing is left. `flowcon-*/install.sh --uninstall` leaves /etc/flowcon and \
                 /var/lib/flowcon, which are yours to delete.",
            ),
        ],
    }
}

fn troubleshooting() -> Section {
    Section {
        heading: "TROUBLESHOOTING",
        parts: vec![
            item(
                "flowctl: no daemon answers",
                "`systemctl status flowcond`, then `journalctl -u flowcond -n 50`. A mistake in the configuration is named with file, line \
                 and key: `flowcond check-config`.",
            ),
            item(
                "flowctl: this user may not connect",
                "Root has full control; members of the group flowcon have read-only access: `usermod -aG flowcon USER`, then log in again.",
            ),
            item(
                "a container is not in the list",
                "It has no label flowcon.enable=true (or that of engine.label); `docker inspect -f \"{{.Config.Labels}}\" NAME` shows them. \
                 Or the engine is not reachable: the first lines of `flowctl status` say so.",
            ),
            item(
                "no metric, or a wrong one",
                "`flowctl explain JOB` shows the line that was read, `flowctl check-log FILE` how a log is understood. Python without a terminal \
                 prints in blocks: PYTHONUNBUFFERED=1. The labels flowcon.metric, flowcon.pattern and flowcon.log help the reader.",
            ),
            item(
                "all shares are equal",
                "Nothing is known yet (two reports are needed), nothing differs, or policy.name is \"fair\". `flowctl explain JOB`.",
            ),
            item(
                "a job is slower than before",
                "`flowctl explain JOB` has the rule and the numbers. `flowctl release JOB` gives it its plain share at once; the label \
                 flowcon.min-share does so for good.",
            ),
            item(
                "left alone: set by somebody else",
                "A limit was changed beside us, and it stays. `flowctl govern JOB` takes the new value as its original and governs again.",
            ),
            item(
                "the system takes our limits back again and again",
                "Another program writes the same limits: a second governor, or a unit with its own CPUWeight. We wait longer each time. \
                 Find it, or exclude the container by removing the label.",
            ),
            item(
                "watching only, nothing is changed",
                "The state directory cannot be written, and without a journal nothing is changed: `df /var/lib/flowcon`, `dmesg`.",
            ),
            item(
                "state directory: read-only",
                "The unit may write to /var/lib/flowcon only. Another state-dir needs ReadWritePaths=: see UNIT.",
            ),
            item(
                "its log does not answer",
                "It lies on a file system that does not answer, such as NFS without its server. Other logs are read on. It is tried again \
                 by itself; nothing of it is lost.",
            ),
            item(
                "parts of its log were skipped",
                "It grows by more than 4 MiB a second, or costs more than 2 % of a core to read. Print less, or let flowcon.log name a file \
                 with the reports alone; a simpler flowcon.pattern costs less.",
            ),
            item(
                "memory is never squeezed",
                "That needs cgroup v2 and pressure information: the kernel argument psi=1. `flowctl doctor` tells.",
            ),
            item(
                "a container with GPUs",
                "An update through the engine could take its GPUs away, so its cgroup is written directly. GPU memory and time are shown \
                 where the daemon may open the GPUs (see UNIT), and governed where gpu.control says so: flowcon-gpu(7).",
            ),
        ],
    }
}

fn unit() -> Section {
    Section {
        heading: "UNIT",
        parts: vec![
            paragraph(
                "The unit flowcond.service sees a read-only system, a /tmp of its own and no devices. What differs on a machine stands in a \
                 drop-in such as /etc/systemd/system/flowcond.service.d/local.conf, below a line [Service]; it counts after \
                 `systemctl daemon-reload` and `systemctl restart flowcond`.",
            ),
            item(
                "ReadWritePaths=/srv/flowcon",
                "For state-dir = \"/srv/flowcon\", which must be there before the start. Below /home too, in spite of ProtectHome=read-only. \
                 Not in /tmp or /var/tmp: with PrivateTmp=yes the daemon has its own.",
            ),
            item(
                "jobs in /tmp",
                "Need nothing: a file that flowcon.log names is opened below the root of the container (/proc/PID/root), in the /tmp that it \
                 has; that of a command is read by its flowctl run.",
            ),
            item(
                "jobs with GPUs",
                "Are governed without anything more. For their GPU use to be seen, the daemon opens the NVIDIA devices, and those alone, \
                 with this drop-in: the lines PrivateDevices=no, DevicePolicy=closed and DeviceAllow=char-nvidia* rw. The driver must be \
                 loaded and its devices be there before (nvidia-persistenced does both), for the unit loads no module.",
            ),
            item(
                "resetting or dividing a GPU",
                "While the daemon looks at GPUs it is a client of the driver, which keeps nvidia-smi from resetting a GPU or turning MIG \
                 on. Stop the daemon for that time, or set gpu.library = \"off\".",
            ),
        ],
    }
}

fn files() -> Section {
    Section {
        heading: "FILES",
        parts: vec![
            item("/etc/flowcon/flowcond.toml, flowcond.d/*.toml", "The configuration: flowcond.toml(5)."),
            item("/var/lib/flowcon", "The journal of original limits, and the history. Root only."),
            item("/run/flowcon/flowcond.sock", "The API: HTTP and JSON, described at /openapi.json."),
            item("/run/flowcon/flowcond-run.sock", "Where flowctl run registers commands; everybody's."),
        ],
    }
}
