//! Reads the end of a job's log with the permissions of the user, and selects the lines that contain evaluations.
//!
//! The daemon sends the path of the log and its latest line, not the content. If the log cannot be read here, for example because only
//! the engine can deliver it, that one line is shown. Bounded to the last [`WINDOW`] bytes. Reading may hang on a dead network mount:
//! call it on a separate thread.

use api::wire::ContainerDetail;
use scope::output;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use tail::ContainerFile;
use term::text;
use traininglog::LogFile;
use traininglog::survey::Survey;

/// Number of bytes read from the end of a log.
const WINDOW: u64 = 128 * 1024;

/// Maximum number of lines returned; the last ones are kept.
const MAX_LINES: usize = 500;

/// Maximum number of characters of a line.
const MAX_LINE_CHARS: usize = 400;

/// Returns the lines that evaluations were read from, oldest first; none if the log cannot be read.
pub(super) fn parsed_lines(job: &ContainerDetail) -> Vec<String> {
    let bytes = end_of_log(job).unwrap_or_default();
    let labels = &job.explanation.reading.labels;
    let (directives, _) = config::directives(labels);
    let mut hints = directives.hints;
    // Detecting the metric takes more lines than are read here, so use the daemon's choice.
    if hints.metric.is_none() && hints.pattern.is_none() {
        hints.metric = job.container.metric.as_ref().and_then(|metric| metric.name.clone());
    }
    let mut survey = Survey::new(&hints);
    survey.push(&bytes);
    survey.finish();
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let mut numbers: Vec<u64> = survey.reading().observations.iter().map(|observation| observation.line).collect();
    numbers.dedup();
    let shown = &numbers[numbers.len().saturating_sub(MAX_LINES)..];
    shown
        .iter()
        .filter_map(|number| lines.get(usize::try_from(*number).ok()?.checked_sub(1)?))
        .map(final_text)
        .collect()
}

/// The text of a line, without parts that a carriage return overwrote.
fn final_text(line: &&[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let last = line.rsplit(|byte| *byte == b'\r').next().unwrap_or(line);
    let last = String::from_utf8_lossy(&last[..last.len().min(4 * MAX_LINE_CHARS)]);
    text::clean(&last).chars().take(MAX_LINE_CHARS).collect()
}

/// The last bytes of the log as the job wrote them, starting at the beginning of a line.
fn end_of_log(job: &ContainerDetail) -> Option<Vec<u8>> {
    let reading = &job.explanation.reading;
    // The number of a process of an ended job may belong to another process by now.
    let address = reading.log.as_ref().filter(|log| log.pid.is_none() || job.container.ended.is_none())?;
    let path = Path::new(&address.path);
    let file = match (address.kind.as_str(), address.pid) {
        ("file", _) => tail::open_on_host(path).ok()?,
        ("output", _) => output::open(path).ok()?,
        ("inside", Some(pid)) => ContainerFile::new(Some(pid), &[], path).open().ok()?,
        _ => return None,
    };
    let bytes = last_lines(file)?;
    let Some(mut file) = LogFile::named(&reading.source) else { return Some(bytes) };
    let mut decoded = Vec::new();
    file.push(&bytes, |text| decoded.extend_from_slice(text));
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
    use api::wire::LogAddress;
    use std::io::Write;

    fn detail_with_log(log: &[u8], source: &str) -> (tempfile::NamedTempFile, ContainerDetail) {
        let mut file = tempfile::NamedTempFile::new().expect("file");
        file.write_all(log).expect("written");
        let mut job = detail("vae", &[0.5], 1, "");
        job.explanation.reading.source = source.to_owned();
        let path = file.path().to_string_lossy().into_owned();
        job.explanation.reading.log = Some(LogAddress { kind: "file".to_owned(), path, pid: None });
        (file, job)
    }

    #[test]
    fn only_lines_with_the_metric_are_returned_and_a_redrawn_line_in_its_final_form() {
        let log = b"loading data\nEpoch 1/9 - loss: 0.9\nsaving\nEpoch 2/9 - loss: 0.95\rEpoch 2/9 - loss: 0.8\n";
        let (_file, job) = detail_with_log(log, "output");
        assert_eq!(parsed_lines(&job), ["Epoch 1/9 - loss: 0.9", "Epoch 2/9 - loss: 0.8"]);
    }

    #[test]
    fn lines_in_json_are_decoded_and_made_safe_to_print() {
        let log = br#"{"log":"Epoch 1/9 - loss: 0.9\u001b[0m\n","stream":"stdout","time":"2024-01-01T00:00:00.0Z"}
{"log":"Epoch 2/9 - loss: 0.8\n","stream":"stdout","time":"2024-01-01T00:00:00.0Z"}
"#;
        let (_file, job) = detail_with_log(log, "json-file");
        assert_eq!(parsed_lines(&job), ["Epoch 1/9 - loss: 0.9[0m", "Epoch 2/9 - loss: 0.8"]);
    }

    #[test]
    fn only_the_end_of_a_long_log_is_read_and_no_partial_line_is_returned() {
        let log: String =
            (0..100_000).map(|epoch| format!("Epoch {epoch} - loss: {}\n", 1.0 / f64::from(epoch + 1))).collect();
        let (_file, job) = detail_with_log(log.as_bytes(), "output");
        let lines = parsed_lines(&job);
        assert_eq!(lines.len(), MAX_LINES);
        assert!(lines.iter().all(|line| line.starts_with("Epoch 99")), "{:?}", lines.first());
        assert!(lines.last().is_some_and(|line| line.starts_with("Epoch 99999 ")));
    }

    #[test]
    fn a_log_that_cannot_be_read_has_no_lines() {
        let (file, mut job) = detail_with_log(b"Epoch 1/9 - loss: 0.9\n", "output");
        drop(file);
        assert!(parsed_lines(&job).is_empty());
        job.explanation.reading.log = None;
        assert!(parsed_lines(&job).is_empty());
    }
}
