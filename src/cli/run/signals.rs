//! Forwards signals to the command.
//!
//! In the foreground of a terminal, the command shares our process group: the terminal's keys and job control reach it directly, and
//! those signals are not forwarded. Otherwise the command has its own process group, which gets every signal. Signals that were
//! ignored when we were started (`nohup`) remain ignored, for us and for the command.

use rustix::process::{Pid, Signal};
use std::fs;
use std::io;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// The forwarded signals, and whether a terminal sends them to the whole foreground group.
const PASSED_ON: &[(Signal, bool)] = &[
    (Signal::INT, true),
    (Signal::QUIT, true),
    (Signal::WINCH, true),
    (Signal::TERM, false),
    (Signal::HUP, false),
    (Signal::USR1, false),
    (Signal::USR2, false),
];

/// Forwarded only to a separate process group: in our own group, the shell and the kernel stop and continue the command.
const JOB_CONTROL: &[Signal] = &[Signal::TSTP, Signal::CONT];

/// Forwarded signals that ask a program to end.
const ENDING: &[Signal] = &[Signal::INT, Signal::QUIT, Signal::TERM, Signal::HUP];

/// The incoming signals.
pub(super) struct Signals {
    incoming: mpsc::Receiver<Signal>,
    foreground: bool,
}

impl Signals {
    /// Installs the signal handlers; call it inside a tokio runtime, before the command is started.
    pub(super) fn listen() -> io::Result<Signals> {
        let foreground = in_foreground();
        let ignored = ignored_signals();
        let (outgoing, incoming) = mpsc::channel(16);
        let passed_on = PASSED_ON.iter().map(|(signal, _)| *signal);
        let job_control = JOB_CONTROL.iter().copied().filter(|_| !foreground);
        for caught in passed_on.chain(job_control).filter(|caught| !is_in(ignored, *caught)) {
            let mut stream = signal(SignalKind::from_raw(caught.as_raw()))?;
            let outgoing = outgoing.clone();
            tokio::spawn(async move { while stream.recv().await.is_some() && outgoing.send(caught).await.is_ok() {} });
        }
        // Keeps the channel open if every signal is ignored.
        tokio::spawn(async move { outgoing.closed().await });
        Ok(Signals { incoming, foreground })
    }

    /// Whether the command gets its own process group.
    pub(super) fn own_group(&self) -> bool {
        !self.foreground
    }

    pub(super) async fn next(&mut self) -> Signal {
        match self.incoming.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }

    /// Whether a signal asks a program to end.
    pub(super) fn asks_to_end(signal: Signal) -> bool {
        ENDING.contains(&signal)
    }

    /// Sends `signal` to the command `pid`, or to its group.
    pub(super) fn pass_on(&self, signal: Signal, pid: u32) {
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
        if self.foreground {
            let by_terminal = PASSED_ON.iter().any(|(passed, by_terminal)| *passed == signal && *by_terminal);
            if !by_terminal {
                let _ = rustix::process::kill_process(pid, signal); // it may just have ended
            }
            return;
        }
        let _ = rustix::process::kill_process_group(pid, signal);
        if signal == Signal::TSTP {
            // The shell expects the job that it stops to stop. The next CONT, also forwarded, continues us.
            let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
        }
    }
}

/// Whether we are to outlive our terminal, as under `nohup`.
pub(super) fn ignores_hangup() -> bool {
    is_in(ignored_signals(), Signal::HUP)
}

/// Whether a terminal has our process group in its foreground.
fn in_foreground() -> bool {
    let Ok(terminal) = fs::File::open("/dev/tty") else { return false };
    rustix::termios::tcgetpgrp(terminal).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// The set of ignored signals: bit n − 1 for signal n.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
}

fn is_in(set: u64, signal: Signal) -> bool {
    set & (1 << (signal.as_raw() - 1)) != 0
}
