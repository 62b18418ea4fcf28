//! Other output of invented programs: times, settings, tables, warnings. Imports: its siblings.

use super::names::one;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// The value of a decoy next to an evaluation, by name; different at each call.
pub fn beside(rng: &mut ChaCha8Rng, name: &str, step: usize) -> String {
    let jitter: f64 = rng.random_range(0.9..1.1);
    match name {
        "lr" | "learning_rate" | "LR" => format!("{:.3e}", 1e-3 / (1.0 + step as f64 / 10.0)),
        "eta" => format!("{}:{:02}:{:02}", rng.random_range(0..5), rng.random_range(0..60), rng.random_range(0..60)),
        "time" | "elapsed" | "sec" => format!("{:.2}s", 3.0 * jitter),
        "samples/s" | "tok/s" => format!("{:.1}", 812.0 * jitter),
        "mem" => format!("{}MB", (4000.0 * jitter) as u32),
        "grad_norm" | "gnorm" => format!("{:.3}", 1.5 * jitter),
        "data_time" => format!("{:.4}", 0.02 * jitter),
        _ => format!("{:.1}", 65536.0),
    }
}

pub const BESIDE: &[&str] = &[
    "lr",
    "learning_rate",
    "LR",
    "eta",
    "time",
    "elapsed",
    "sec",
    "samples/s",
    "tok/s",
    "mem",
    "grad_norm",
    "gnorm",
    "data_time",
];

/// Lines before the first evaluation.
pub fn preamble(rng: &mut ChaCha8Rng, epochs: Option<usize>) -> Vec<String> {
    let mut lines = Vec::new();
    if rng.random_bool(0.6) {
        lines.push(
            one(rng, &["Starting up", "Using device: cuda:0", "loading dataset from /data/train", "seed = 42"])
                .to_owned(),
        );
    }
    if rng.random_bool(0.5) {
        let count = rng.random_range(2000..90_000);
        lines.push(format!("{count} training samples, {} validation samples", count / 10));
        lines.push(format!("model has {} trainable parameters", count * 317));
    }
    if let Some(epochs) = epochs {
        let batch = 1 << rng.random_range(4..9);
        match rng.random_range(0..3) {
            0 => lines.push(format!("Namespace(lr=0.001, epochs={epochs}, batch_size={batch}, dropout=0.1, seed=1)")),
            1 => lines.extend([
                "config:".to_owned(),
                format!("  batch_size: {batch}"),
                format!("  epochs: {epochs}"),
                "  dropout: 0.1".to_owned(),
                "  weight_decay: 0.0005".to_owned(),
            ]),
            _ => lines
                .push(format!("{{\"epochs\": {epochs}, \"batch_size\": {batch}, \"lr\": 0.01, \"momentum\": 0.9}}")),
        }
    }
    if rng.random_bool(0.3) {
        for layer in 0..rng.random_range(2..5) {
            lines.push(format!("  (fc{layer}): Linear(in_features={}, out_features={}, bias=True)", 64 << layer, 128));
        }
    }
    if rng.random_bool(0.25) {
        let bar = |done: usize| {
            format!(
                "Loading data: {:3}%|{:10}| {done}/40 [00:01<00:02, 18.4it/s]",
                done * 100 / 40,
                "#".repeat(done / 4)
            )
        };
        lines.push((1..=4).map(|part| bar(part * 10)).collect::<Vec<_>>().join("\r"));
    }
    lines
}

/// An occasional line between two evaluations.
pub fn between(rng: &mut ChaCha8Rng, step: usize, best: f64) -> Option<String> {
    if rng.random_bool(0.75) {
        return None;
    }
    Some(match rng.random_range(0..8) {
        0 => String::new(),
        1 => "/usr/lib/python3/site-packages/nn/utils.py:117: UserWarning: non-contiguous input, this may be slow"
            .to_owned(),
        2 => format!("Saving checkpoint to out/ckpt_{step:04}.bin"),
        3 => format!("saved model, best so far {best:.4}"),
        4 => "connection to the metrics server was lost, retrying".to_owned(),
        5 => format!("GPU 0: {} MiB used, {} C", 3000 + step % 100, 60 + step % 9),
        6 => format!("no improvement for {} evaluations (patience 10)", 1 + step % 3),
        _ => format!("learning rate reduced to {:.2e}", 1e-3 / (1 + step) as f64),
    })
}

/// Prefixes of every line, from the program or its engine. `{}` is replaced by the minute of a running clock.
pub const PREFIXES: &[&str] = &[
    "",
    "",
    "",
    "",
    "2026-03-04 10:{}:05,123 - INFO - ",
    "[2026-03-04 10:{}:05] ",
    "2026-03-04T10:{}:05.123456Z ",
    "INFO:trainer:",
    "[INFO] ",
    "10:{}:05 | INFO | ",
    "I0304 10:{}:05.123456  4711 main.cc:88] ",
    "2026-03-04T10:{}:05.000000456+00:00 stdout F ",
    "trainer-1  | ",
    "[rank0]: ",
    "2026-03-04 10:{}:05.123 | DEBUG    | app.train:loop:42 - ",
    "(main pid=4711) ",
    "Mar  4 10:{}:05 node7 train[4711]: ",
];
