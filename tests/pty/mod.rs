//! Runs `flowctl` on a real pseudo-terminal (util-linux's `script`) and emulates its screen.

#![allow(dead_code, reason = "each test binary needs only a part of it")]

use std::fs;
use std::io::{Read, Write};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Number of bytes after which the screen is searched for an awaited text; more are drawn while a message is shown.
const PIECE: usize = 64;

/// A terminal that runs `flowctl`; its settings are recorded before and after.
pub struct Pty {
    child: Child,
    keys: ChildStdin,
    parser: Arc<Mutex<vt100::Parser>>,
    written: Arc<AtomicU64>,
    /// A text that has not been on the screen yet.
    awaited: Arc<Mutex<Option<String>>>,
    dir: tempfile::TempDir,
}

/// Options of [`Pty::start`].
pub struct Start<'a> {
    pub socket: PathBuf,
    pub arguments: &'a [&'a str],
    pub rows: u16,
    pub columns: u16,
    pub environment: &'a [(&'a str, &'a str)],
}

impl Pty {
    /// Starts `flowctl top` on a terminal.
    pub fn start(start: &Start<'_>) -> Pty {
        let flowctl = env!("CARGO_BIN_EXE_flowctl");
        let command = format!("{flowctl} --socket {} top {}", start.socket.display(), start.arguments.join(" "));
        Pty::run(&command, start.rows, start.columns, start.environment)
    }

    /// Starts a shell command on a terminal of this size.
    pub fn run(command: &str, rows: u16, columns: u16, environment: &[(&str, &str)]) -> Pty {
        let dir = tempfile::tempdir().expect("folder");
        let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
        let script = format!(
            "tty > {tty}; stty rows {rows} cols {columns}; stty -a > {before}; sh -c 'echo $$ > {pid}; exec {command}'; \
             echo $? > {code}; stty -a > {after}",
            tty = path("tty"),
            before = path("before"),
            pid = path("pid"),
            code = path("code.new"),
            after = path("after"),
        );
        let script = format!("{script}; mv {} {}", path("code.new"), path("code"));
        let mut command = Command::new("script");
        command
            .args(["-qfc", &script, "/dev/null"])
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8");
        command.env_remove("NO_COLOR").env_remove("COLUMNS").envs(environment.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("`script` of util-linux");
        let parser = Arc::new(Mutex::new(vt100::Parser::new(size(rows), size(columns), 0)));
        let mut output = child.stdout.take().expect("piped");
        let seen = parser.clone();
        let written = Arc::new(AtomicU64::new(0));
        let counted = written.clone();
        let awaited = Arc::new(Mutex::new(None::<String>));
        let wanted = awaited.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 65_536];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                counted.fetch_add(count as u64, Ordering::Relaxed);
                let (mut parser, mut wanted) = (seen.lock().expect("whole"), wanted.lock().expect("whole"));
                let at_once = if wanted.is_some() { PIECE } else { count };
                for piece in bytes[..count].chunks(at_once) {
                    parser.process(piece);
                    wanted.take_if(|words| parser.screen().contents().contains(words.as_str()));
                }
            }
        });
        let keys = child.stdin.take().expect("piped");
        Pty { child, keys, parser, written, awaited, dir }
    }

    /// Number of bytes written to the terminal so far.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// The content of the screen.
    pub fn screen(&self) -> String {
        self.parser.lock().expect("whole").screen().contents()
    }

    /// Whether the alternate screen is active, and whether the cursor is hidden.
    pub fn is_taken(&self) -> (bool, bool) {
        let parser = self.parser.lock().expect("whole");
        (parser.screen().alternate_screen(), parser.screen().hide_cursor())
    }

    /// Whether any cell has a colour.
    pub fn is_coloured(&self) -> bool {
        let parser = self.parser.lock().expect("whole");
        let (rows, columns) = parser.screen().size();
        let cells = (0..rows.get()).flat_map(|row| (0..columns.get()).map(move |column| (row, column)));
        let coloured =
            |cell: &vt100::Cell| [cell.fgcolor(), cell.bgcolor()].iter().any(|c| *c != vt100::Color::Default);
        cells.filter_map(|(row, column)| parser.screen().cell(row, column)).any(coloured)
    }

    /// Types keys.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the terminal is open");
        self.keys.flush().expect("the terminal is open");
    }

    /// Types keys and waits until the screen has contained these words, even if they are on it only for seconds.
    pub fn press_and_see(&mut self, keys: &str, words: &str) {
        *self.awaited.lock().expect("whole") = Some(words.to_owned());
        self.press(keys);
        self.eventually(words, |_| self.awaited.lock().expect("whole").is_none());
    }

    /// Waits until the screen satisfies the condition, and returns it.
    pub fn eventually(&self, what: &str, condition: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + Duration::from_secs(180);
        loop {
            let screen = self.screen();
            if condition(&screen) {
                return screen;
            }
            assert!(Instant::now() < until, "not in time: {what}; the screen:\n{screen}");
            sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the screen contains these words, and returns it.
    pub fn wait_for(&self, words: &str) -> String {
        self.eventually(words, |screen| screen.contains(words))
    }

    /// The process id of `flowctl`.
    pub fn pid(&self) -> u32 {
        self.file("pid").trim().parse().expect("a number")
    }

    /// Resizes the terminal.
    pub fn resize(&self, rows: u16, columns: u16) {
        let terminal = fs::File::options().read(true).write(true).open(self.file("tty").trim()).expect("a terminal");
        let size = rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(terminal, size).expect("a size");
        self.parser.lock().expect("whole").screen_mut().set_size(self::size(rows), self::size(columns));
    }

    /// Sends `flowctl` a signal.
    pub fn signal(&self, signal: &str) {
        Command::new("kill").args([&format!("-{signal}"), &self.pid().to_string()]).status().expect("kill");
    }

    /// The state of `flowctl` as a letter like in `ps`: `S`, `T`, …
    pub fn state(&self) -> char {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("it runs");
        stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).expect("a state")
    }

    /// Waits for the end of `flowctl`; returns its exit code, and the terminal's settings before and after.
    pub fn end(&self) -> (i32, String, String) {
        let code = self.file("code").trim().parse().expect("a number");
        (code, self.file("before"), self.file("after"))
    }

    /// Waits for a file written by the shell, and returns its content.
    fn file(&self, name: &str) -> String {
        let until = Instant::now() + Duration::from_secs(180);
        loop {
            match fs::read_to_string(self.dir.path().join(name)) {
                Ok(text) if text.ends_with('\n') => return text,
                _ => assert!(Instant::now() < until, "no {name}; the screen:\n{}", self.screen()),
            }
            sleep(Duration::from_millis(10));
        }
    }
}

fn size(cells: u16) -> NonZero<u16> {
    NonZero::new(cells).expect("a terminal has cells")
}

impl Drop for Pty {
    fn drop(&mut self) {
        let pid = fs::read_to_string(self.dir.path().join("pid"));
        if let Some(pid) = pid.ok().filter(|_| !self.dir.path().join("code").exists()) {
            let _ = Command::new("kill").args(["-KILL", pid.trim()]).stderr(Stdio::null()).status();
        }
        let _ = self.child.kill(); // it may have exited
        let _ = self.child.wait();
    }
}
