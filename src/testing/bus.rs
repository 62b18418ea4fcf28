//! D-Bus buses with a system manager that misbehaves: silent, old, or closing its connections.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;
use tempfile::TempDir;

/// Longer than any call waits.
const SILENT_FOR: Duration = Duration::from_secs(80);

/// Returns a bus that serves its first client with `serve`, and its address.
pub fn serving(serve: impl FnOnce(UnixStream) + Send + 'static) -> (TempDir, String) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("bus");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || serve(listener.accept().unwrap().0));
    let address = format!("unix:path={}", path.display());
    (dir, address)
}

/// Returns a bus that accepts connections and sends nothing, or nothing after the handshake.
pub fn mute(handshake: bool) -> (TempDir, String) {
    serving(move |stream| {
        if handshake {
            welcome(&stream);
        }
        std::thread::sleep(SILENT_FOR);
    })
}

/// Returns a bus whose manager has no `OOMPolicy`. Without it, a scope is rejected as well, for a reason that says how often it was requested.
pub fn old_manager() -> (TempDir, String) {
    serving(|stream| {
        let mut reader = welcome(&stream);
        let mut had_policy = false;
        while let Ok(call) = read_message(&mut reader) {
            let has = |word: &str| memchr::memmem::find(&call, word.as_bytes()).is_some();
            let error = match (has("StartTransientUnit"), has("OOMPolicy")) {
                (true, true) => Some("org.freedesktop.DBus.Error.PropertyReadOnly"),
                (true, false) => Some(if had_policy { "test.RequestedTwice" } else { "test.RequestedOnce" }),
                _ if has("GetNameOwner") => Some("org.freedesktop.DBus.Error.NameHasNoOwner"),
                _ => None,
            };
            had_policy |= has("OOMPolicy");
            let _ = (&stream).write_all(&answer(&call[8..12], error)); // the client may have gone
        }
    })
}

/// An empty answer to the call with this serial number, or an error of this name.
fn answer(serial: &[u8], error: Option<&str>) -> Vec<u8> {
    let mut fields = [&b"\x05\x01u\0"[..], serial].concat();
    if let Some(name) = error {
        fields.extend_from_slice(b"\x04\x01s\0");
        fields.extend_from_slice(&(name.len() as u32).to_le_bytes());
        fields.extend_from_slice(name.as_bytes());
        fields.push(0);
    }
    let kind = if error.is_some() { 3 } else { 2 };
    let mut answer = vec![b'l', kind, 1, 1, 0, 0, 0, 0, 2, 0, 0, 0];
    answer.extend_from_slice(&(fields.len() as u32).to_le_bytes());
    answer.extend_from_slice(&fields);
    answer.resize(answer.len().next_multiple_of(8), 0);
    answer
}

/// Reads one message: 16 bytes, the rest of the header, padded to a multiple of 8 bytes, and the body.
fn read_message(reader: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut message = vec![0_u8; 16];
    reader.read_exact(&mut message)?;
    let number = |at: usize| u32::from_le_bytes(message[at..at + 4].try_into().unwrap()) as usize;
    let size = 16 + number(12).next_multiple_of(8) + number(4);
    message.resize(size, 0);
    reader.read_exact(&mut message[16..])?;
    Ok(message)
}

/// Authenticates every client and answers its `Hello` with a name.
fn welcome(mut stream: &UnixStream) -> BufReader<UnixStream> {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    while !line.ends_with("BEGIN\r\n") {
        line.clear();
        reader.read_line(&mut line).unwrap();
        let answer: &[u8] = match line.trim_start_matches('\0').split(' ').next() {
            Some("AUTH") => b"OK 1234deadbeef1234deadbeef1234dead\r\n",
            Some("NEGOTIATE_UNIX_FD\r\n") => b"AGREE_UNIX_FD\r\n",
            _ => b"",
        };
        stream.write_all(answer).unwrap();
    }
    let hello = read_message(&mut reader).unwrap();
    // A method return: 9 bytes of body, serial 1, 15 bytes of header fields: reply serial, and signature of a string.
    let head = [&b"l\x02\x01\x01\x09\0\0\0\x01\0\0\0\x0f\0\0\0\x05\x01u\0"[..], &hello[8..12]].concat();
    let answer = [&head[..], b"\x08\x01g\0\x01s\0\0", b"\x04\0\0\0:1.1\0"].concat();
    stream.write_all(&answer).unwrap();
    reader
}

/// Returns a bus that closes the connection at the first call.
pub fn closing() -> (TempDir, String) {
    serving(|stream| drop(read_message(&mut welcome(&stream))))
}
