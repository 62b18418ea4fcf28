//! A program as a target: it gets the message on its standard input and in its environment, and no other variables than PATH.

use super::{SendError, WITHIN};
use crate::message::Delivery;
use model::word;
use std::io::{Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Bytes of its standard error that are reported.
const REPORTED: u64 = 300;

pub(super) fn send(words: &[String], delivery: &Delivery) -> Result<(), SendError> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(SendError::permanent("the target has no command".to_owned()));
    };
    let failed = |why: String| SendError::passing(format!("{program}: {why}"));
    let io = |error: std::io::Error| failed(error.to_string());
    // Files and not pipes: a program that reads or writes nothing cannot stop us.
    let mut input = unnamed_file().map_err(io)?;
    write!(input, "{}\n\n{}", delivery.title, delivery.body).and_then(|()| input.rewind()).map_err(io)?;
    let mut errors = unnamed_file().map_err(io)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()))
        .env("FLOWCON_TITLE", &delivery.title)
        .env("FLOWCON_KIND", word(delivery.kind()))
        .env("FLOWCON_JOB", delivery.job().unwrap_or_default())
        .env("FLOWCON_HOST", delivery.host())
        .env("FLOWCON_MESSAGES", delivery.messages.len().to_string())
        .stdin(Stdio::from(input))
        .stdout(Stdio::null())
        .stderr(Stdio::from(errors.try_clone().map_err(io)?))
        .process_group(0);
    let child = command.spawn().map_err(|error| failed(format!("cannot be started: {error}; next: check the path")))?;
    match ended(child).map_err(io)? {
        Some(status) if status.success() => Ok(()),
        Some(status) => {
            let mut said = Vec::new();
            let _ = errors.rewind().and_then(|()| errors.take(REPORTED).read_to_end(&mut said)); // only words for the error
            let said = String::from_utf8_lossy(&said).trim().replace('\n', " ");
            Err(failed(format!("{status}: {said}")))
        }
        None => Err(failed(format!("did not end within {} s and was killed", WITHIN.as_secs()))),
    }
}

/// Waits for the end of a program; `None` if it takes too long, in which case it and what it started are killed.
fn ended(mut child: Child) -> std::io::Result<Option<ExitStatus>> {
    let until = Instant::now() + WITHIN;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
            let _ = group.map(|group| rustix::process::kill_process_group(group, rustix::process::Signal::KILL));
            child.wait()?;
            return Ok(None);
        }
        sleep(LOOK_EVERY);
    }
}

/// A file in memory.
fn unnamed_file() -> std::io::Result<std::fs::File> {
    Ok(rustix::fs::memfd_create("flowcon-notify", rustix::fs::MemfdFlags::CLOEXEC)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::tests::message;
    use model::AlertKind;

    fn run(script: &str) -> Result<(), SendError> {
        let words = ["/bin/sh", "-c", script].map(str::to_owned);
        send(&words, &Delivery::of(vec![message("a", AlertKind::KilledForMemory, 0)], 0))
    }

    #[test]
    fn a_program_gets_the_message_and_its_failure_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("got");
        run(&format!("{{ cat; env; }} >{}", file.display())).unwrap();
        let got = std::fs::read_to_string(file).unwrap();
        assert!(got.starts_with("a: is KilledForMemory\n\nBecause.\ngpu-1, "), "{got}");
        assert!(got.contains("FLOWCON_KIND=killed-for-memory\n") && got.contains("FLOWCON_JOB=a\n"), "{got}");
        assert!(!got.contains("CARGO"), "{got}");
        let error = run("echo oh no >&2; exit 3").unwrap_err();
        assert!(!error.is_permanent && error.text.contains("exit status: 3: oh no"), "{error}");
        let missing = send(&["/no/such".to_owned()], &Delivery::of(vec![message("a", AlertKind::Nan, 0)], 0));
        assert!(missing.unwrap_err().text.contains("cannot be started"));
    }
}
