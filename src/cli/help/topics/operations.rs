//! The topic `operations`: install, upgrade, undo, troubleshooting, the unit and its files.

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
                "On Debian and its derivatives, install the package; elsewhere, the tarball with static binaries:",
            ),
            Part::Code(
                "apt install ./flowcon_*.deb\n\
                 tar xf flowcon-*.tar.gz && flowcon-*/install.sh    # without apt\n\
                 systemctl enable --now flowcond\n\
                 flowctl doctor                                     # finds problems and says how to fix them",
            ),
            paragraph(
                "Installing starts nothing and changes no container. For a dry run, set policy.name = \"fair\": it observes and changes \
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
                "Install the newer package over the old one. The service is restarted: the original limits are restored for about a \
                 second, jobs keep running, and logs are read on from the same position. With on-exit = \"keep\" the limits stay in place \
                 during the restart. Your configuration is kept.",
            ),
            paragraph(
                "To downgrade, first run `systemctl stop flowcond` with the newer version, so that all limits are restored. A \
                 state directory of a later version is rejected, never misread.",
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
                "`flowctl release JOB`: its original limits are restored, and it is left alone until `flowctl govern JOB`.",
            ),
            item("all jobs", "`flowctl restore`, or `systemctl stop flowcond`."),
            item(
                "after a crash",
                "`flowcond restore`, without a daemon. Under systemd it runs automatically (ExecStopPost).",
            ),
            item(
                "everything",
                "`apt purge flowcon` restores all limits and removes every file. `flowcon-*/install.sh --uninstall` leaves /etc/flowcon \
                 and /var/lib/flowcon, which you may delete.",
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
                "`systemctl status flowcond`, then `journalctl -u flowcond -n 50`. `flowcond check-config` names file, line and key of a \
                 mistake in the configuration.",
            ),
            item(
                "flowctl: this user may not connect",
                "Root has full control; members of the group flowcon have read-only access: `usermod -aG flowcon USER`, then log in again.",
            ),
            item(
                "a container is not in the list",
                "It has no label flowcon.enable=true (or the label set in engine.label): check with `docker inspect -f \
                 \"{{.Config.Labels}}\" NAME`. Or the engine cannot be reached: the first lines of `flowctl status` say so.",
            ),
            item(
                "no metric, or a wrong one",
                "`flowctl explain JOB` shows the line that was read, `flowctl check-log FILE` how a log is parsed. Python without a terminal \
                 buffers its output: set PYTHONUNBUFFERED=1. The labels flowcon.metric, flowcon.pattern and flowcon.log select what is read.",
            ),
            item(
                "all shares are equal",
                "Too little is known yet (two reports are needed), the jobs do not differ, or policy.name is \"fair\". See `flowctl explain JOB`.",
            ),
            item(
                "a job is slower than before",
                "`flowctl explain JOB` shows the rule and the numbers. `flowctl release JOB` restores its plain share at once; the label \
                 flowcon.min-share guarantees a share permanently.",
            ),
            item(
                "left alone: changed by another program",
                "Another program changed a limit; flowcon keeps that value. `flowctl govern JOB` accepts it as the original and governs the job \
                 again.",
            ),
            item(
                "the system takes our limits back again and again",
                "Another program writes the same limits: a second governor, or a unit with its own CPUWeight. flowcon waits longer before each \
                 retry. Find that program, or exclude the container by removing the label.",
            ),
            item(
                "watching only, nothing is changed",
                "The state directory cannot be written, and no limit is changed without a journal: check `df /var/lib/flowcon` and `dmesg`.",
            ),
            item(
                "state directory: read-only",
                "The unit may only write to /var/lib/flowcon. Another state-dir needs ReadWritePaths=: see UNIT.",
            ),
            item(
                "its log does not answer",
                "It is on a file system that does not respond, such as NFS without its server. Other logs are still read. Reading is retried \
                 automatically, and nothing is lost.",
            ),
            item(
                "parts of its log were skipped",
                "It grows by more than 4 MiB a second, or costs more than 2 % of a core to read. Print less, set flowcon.log to a file that \
                 contains only the reports, or use a simpler flowcon.pattern.",
            ),
            item(
                "memory is never squeezed",
                "That needs cgroup v2 and pressure information (kernel argument psi=1). `flowctl doctor` checks both.",
            ),
            item(
                "a container with GPUs",
                "An update through the engine could take its GPUs away, so its cgroup is written directly. GPU memory and time are shown \
                 if the daemon may open the GPUs (see UNIT), and governed if gpu.control is set: flowcon-gpu(7).",
            ),
        ],
    }
}

fn unit() -> Section {
    Section {
        heading: "UNIT",
        parts: vec![
            paragraph(
                "The unit flowcond.service has a read-only system, a private /tmp and no devices. Put changes for a machine into a \
                 drop-in such as /etc/systemd/system/flowcond.service.d/local.conf, below a line [Service]; they take effect after \
                 `systemctl daemon-reload` and `systemctl restart flowcond`.",
            ),
            item(
                "ReadWritePaths=/srv/flowcon",
                "For state-dir = \"/srv/flowcon\", which must exist before the start. A folder below /home works too, despite \
                 ProtectHome=read-only. /tmp and /var/tmp do not work: with PrivateTmp=yes the daemon has private ones.",
            ),
            item(
                "jobs in /tmp",
                "No change is needed: the file named by flowcon.log is opened below the root of the container (/proc/PID/root), in the \
                 container's own /tmp; the file of a command is read by its flowctl run.",
            ),
            item(
                "jobs with GPUs",
                "They are governed without any change. To monitor their GPU use, allow the daemon to open the NVIDIA devices, and only those, \
                 with this drop-in: the lines PrivateDevices=no, DevicePolicy=closed and DeviceAllow=char-nvidia* rw. The unit loads no \
                 module, so the driver must be loaded and its devices must exist before (nvidia-persistenced does both).",
            ),
            item(
                "resetting or dividing a GPU",
                "While the daemon monitors GPUs it is a client of the driver, which prevents nvidia-smi from resetting a GPU or enabling MIG. \
                 Stop the daemon during that time, or set gpu.library = \"off\".",
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
            item(
                "/run/flowcon/flowcond-run.sock",
                "The socket where flowctl run registers commands; open to every user.",
            ),
        ],
    }
}
