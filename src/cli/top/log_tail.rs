//! The end of a job's log, read where it stands with the rights of whoever looks, and the lines in it that were understood.
//!
//! The daemon hands out an address and no bytes, and tells the latest line only. What cannot be read here, such as a log that only an
//! engine gives out, leaves that one line. Bounded: the last [`WINDOW`] bytes. Reading may hang on a dead network mount: call it on
//! a thread of its own. Imports: wire types, config, host, progress.

use crate::api::wire::ContainerDetail;
use crate::config;
use crate::host::scope::output;
use crate::host::tail::{self, ContainerFile, JsonLog};
use crate::progress::Survey;
use crate::term::text;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes that are read.
const WINDOW: u64 = 128 * 1024;

/// Lines that are handed on, the last.
const LINES_AT_MOST: usize = 500;

/// Characters of a line that are handed on.
const LINE_AT_MOST: usize = 400;

/// The lines that evaluations were read from, oldest first; none where the log cannot be read.
pub fn understood(told: &ContainerDetail) -> Vec<String> {
    let bytes = end_of_log(told).unwrap_or_default();
    let labels = &told.explanation.reading.labels;
    let (mut directives, _) = config::directives(labels);
    // Which metric it is takes more lines to tell than stand here; the daemon knows.
    if directives.metric.is_none() && directives.pattern.is_none() {
        directives.metric = told.container.metric.as_ref().and_then(|metric| metric.name.clone());
    }
    let mut survey = Survey::new(&directives);
    survey.push(&bytes);
    survey.finish();
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let mut numbers: Vec<u64> = survey.reading().observations.iter().map(|observation| observation.line).collect();
    numbers.dedup();
    let shown = &numbers[numbers.len().saturating_sub(LINES_AT_MOST)..];
    shown.iter().filter_map(|number| lines.get(usize::try_from(*number).ok()?.checked_sub(1)?)).map(words).collect()
}

/// A line as it stood last: what a redraw overwrote is left out.
fn words(line: &&[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let last = line.rsplit(|byte| *byte == b'\r').next().unwrap_or(line);
    let last = String::from_utf8_lossy(&last[..last.len().min(4 * LINE_AT_MOST)]);
    text::clean(&last).chars().take(LINE_AT_MOST).collect()
}

/// The last bytes from a line's beginning on, as the job wrote them.
fn end_of_log(told: &ContainerDetail) -> Option<Vec<u8>> {
    let reading = &told.explanation.reading;
    let address = reading.log.as_ref()?;
    let path = Path::new(&address.path);
    let file = match (address.kind.as_str(), address.pid) {
        ("file", _) => tail::open_on_host(path).ok()?,
        ("output", _) => output::open(path).ok()?,
        ("inside", Some(pid)) => ContainerFile::new(Some(pid), &[], path).open().ok()?,
        _ => return None,
    };
    let bytes = last_lines(file)?;
    if reading.source != "json-file" {
        return Some(bytes);
    }
    let mut decoded = Vec::new();
    JsonLog::default().push(&bytes, &mut decoded);
    Some(decoded)
}

fn last_lines(mut file: File) -> Option<Vec<u8>> {
    let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let from = metadata.len().saturating_sub(WINDOW);
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut bytes = Vec::new();
    file.take(WINDOW).read_to_end(&mut bytes).ok()?;
    if from > 0 {
        let cut = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
        bytes.drain(..cut);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::testing::detail;
    use super::*;
    use crate::api::wire::LogAddress;
    use std::io::Write;

    fn told(log: &[u8], source: &str) -> (tempfile::NamedTempFile, ContainerDetail) {
        let mut file = tempfile::NamedTempFile::new().expect("file");
        file.write_all(log).expect("written");
        let mut told = detail("vae", &[0.5], 1, "");
        told.explanation.reading.source = source.to_owned();
        let path = file.path().to_string_lossy().into_owned();
        told.explanation.reading.log = Some(LogAddress { kind: "file".to_owned(), path, pid: None });
        (file, told)
    }

    #[test]
    fn only_lines_with_the_metric_are_told_and_a_redrawn_line_as_it_stood_last() {
        let log = b"loading data\nEpoch 1/9 - loss: 0.9\nsaving\nEpoch 2/9 - loss: 0.95\rEpoch 2/9 - loss: 0.8\n";
        let (_file, told) = told(log, "output");
        assert_eq!(understood(&told), ["Epoch 1/9 - loss: 0.9", "Epoch 2/9 - loss: 0.8"]);
    }

    #[test]
    fn what_the_engine_wrapped_is_unwrapped_and_made_safe_to_print() {
        let log = br#"{"log":"Epoch 1/9 - loss: 0.9\u001b[0m\n","stream":"stdout","time":"2024-01-01T00:00:00.0Z"}
{"log":"Epoch 2/9 - loss: 0.8\n","stream":"stdout","time":"2024-01-01T00:00:00.0Z"}
"#;
        let (_file, told) = told(log, "json-file");
        assert_eq!(understood(&told), ["Epoch 1/9 - loss: 0.9[0m", "Epoch 2/9 - loss: 0.8"]);
    }

    #[test]
    fn of_a_long_log_only_the_end_is_read_and_no_half_line_is_told() {
        let log: String =
            (0..100_000).map(|epoch| format!("Epoch {epoch} - loss: {}\n", 1.0 / f64::from(epoch + 1))).collect();
        let (_file, told) = told(log.as_bytes(), "output");
        let lines = understood(&told);
        assert_eq!(lines.len(), LINES_AT_MOST);
        assert!(lines.iter().all(|line| line.starts_with("Epoch 99")), "{:?}", lines.first());
        assert!(lines.last().is_some_and(|line| line.starts_with("Epoch 99999 ")));
    }

    #[test]
    fn a_log_that_cannot_be_read_has_no_lines() {
        let (file, mut told) = told(b"Epoch 1/9 - loss: 0.9\n", "output");
        drop(file);
        assert!(understood(&told).is_empty());
        told.explanation.reading.log = None;
        assert!(understood(&told).is_empty());
    }
}
