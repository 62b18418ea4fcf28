//! Uncommitted: fast judge of corpora. `check DIR...`: one JSON line per log.
use std::io::Write;
use traininglog::Hints;
use traininglog::survey::Survey;

fn number(v: f64) -> String {
    if v.is_nan() { "NaN".into() } else if v.is_infinite() { if v > 0.0 { "Infinity".into() } else { "-Infinity".into() } } else { format!("{v:?}") }
}

fn main() {
    let out = std::io::stdout();
    let mut out = std::io::BufWriter::new(out.lock());
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path).unwrap_or_default();
        let mut survey = Survey::new(&Hints::default());
        for chunk in bytes.chunks(8192) {
            survey.push(chunk);
        }
        survey.finish();
        let r = survey.reading();
        let values: Vec<String> = r.observations.iter().map(|o| format!("[{},{}]", o.line, number(o.value))).collect();
        let progress = r.progress.map_or("null".to_owned(), |p| {
            format!("{{\"unit\":\"{:?}\",\"current\":{},\"total\":{}}}", p.unit, number(p.current), p.total.map_or("null".into(), number))
        });
        let cands: Vec<String> = r.candidates.iter().map(|c| format!("[{},{},{}]", serde_json::json!(c.metric), c.count, number(c.score))).collect();
        let _ = writeln!(
            out,
            "{{\"file\":{path:?},\"metric\":{},\"direction\":\"{}\",\"confidence\":{},\"values\":[{}],\"progress\":{progress},\"candidates\":[{}]}}",
            serde_json::json!(r.metric),
            match r.direction { Some(traininglog::Direction::Up) => "up", _ => "down" },
            number(r.confidence), values.join(","), cands.join(",")
        );
    }
}
