//! Vocabulary of the invented programs. Imports: random numbers.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// A random element of a list.
pub fn one<'a>(rng: &mut ChaCha8Rng, list: &[&'a str]) -> &'a str {
    list[rng.random_range(0..list.len())]
}

pub const LOSSES: &[&str] = &[
    "loss",
    "Loss",
    "mse",
    "avg_loss",
    "nll",
    "NLL",
    "train_loss",
    "trainLoss",
    "TrainLoss",
    "mse",
    "cross_entropy",
    "xent",
    "CE loss",
    "avg_loss",
    "running loss",
    "total_loss",
    "loss/total",
    "perplexity",
    "ppl",
    "rmse",
    "error",
    "Cost",
    "lm loss",
    "ce_loss",
    "mean loss",
    "train/loss",
    "bce",
    "objective loss",
    "smoothed loss",
    "MAE",
    "logloss",
    "tr_loss",
    "train nll",
    "err",
];

pub const SCORES: &[&str] = &[
    "acc",
    "accuracy",
    "Accuracy",
    "top1",
    "Acc@1",
    "bleu",
    "BLEU",
    "f1",
    "F1",
    "mAP",
    "mIoU",
    "auc",
    "AUC",
    "reward",
    "mean_reward",
    "avg return",
    "episode reward",
    "ndcg@10",
    "psnr",
    "dice",
    "score",
    "elbo",
    "train_acc",
    "R2",
];

pub const UNKNOWN: &[&str] = &[
    "flurb", "wug", "qx", "zeta_q", "Blorp", "capa-hat", "tock", "vrm", "Gx", "pltk", "snerk", "J", "phi", "crit",
    "discr", "fitq", "mu_q2", "aa", "twist", "brel",
];

/// Names of counters that are not in the reader's vocabulary.
pub const TALLIES: &[&str] = &[
    "lap", "tour", "visit", "stage_no", "Zyklus", "k", "outer", "nth", "turn", "wave", "t_idx", "block", "phase", "kth",
];

pub const EPOCHS: &[&str] =
    &["epoch", "Epoch", "EPOCH", "epochs", "ep", "Ep", "epoch_num", "Train Epoch", "train epoch", "cur_epoch"];

pub const ROUNDS: &[&str] =
    &["round", "iteration", "iter", "Iteration", "Iter", "generation", "pass", "cycle", "sweep"];

pub const STEPS: &[&str] =
    &["step", "Step", "batch", "Batch", "iter", "iteration", "it", "minibatch", "global_step", "update", "batch_idx"];

/// For each language: epoch, step, loss, score, validation, "of".
pub const FOREIGN: &[[&str; 6]] = &[
    ["Epoche", "Schritt", "Verlust", "Genauigkeit", "Validierung", "von"],
    ["époque", "étape", "perte", "précision", "validation", "sur"],
    ["época", "paso", "pérdida", "precisión", "validación", "de"],
    ["epoca", "passo", "perdita", "accuratezza", "validazione", "di"],
    ["época", "passo", "perda", "acurácia", "validação", "de"],
    ["эпоха", "шаг", "потери", "точность", "валидация", "из"],
    ["轮次", "步", "损失", "准确率", "验证", "共"],
    ["エポック", "ステップ", "損失", "正解率", "検証", "/"],
    ["에포크", "스텝", "손실", "정확도", "검증", "/"],
    ["epoka", "krok", "strata", "dokładność", "walidacja", "z"],
];

/// The validation name of a training metric: `loss` → `val_loss`.
pub fn validation(rng: &mut ChaCha8Rng, name: &str) -> String {
    let bare = ["train_", "train/", "train ", "tr_"].iter().find_map(|head| name.strip_prefix(head)).unwrap_or(name);
    match rng.random_range(0..5) {
        0 => format!("val_{bare}"),
        1 => format!("valid {bare}"),
        2 => format!("dev_{bare}"),
        3 => format!("validation {bare}"),
        _ => format!("eval_{bare}"),
    }
}

/// Numbers inside of their types; `,` stands for a decimal comma.
pub const NOTATIONS: &[&str] = &[
    "np.float32({})",
    "np.float64({})",
    "tensor({})",
    "tensor([{}])",
    "tensor({}, device='cuda:0')",
    "tensor({}, device='cuda:1', grad_fn=<MeanBackward0>)",
    "Array({}, dtype=float32)",
    "array([{}], dtype=float32)",
    "tf.Tensor({}, shape=(), dtype=float32)",
    "<tf.Tensor: shape=(), dtype=float32, numpy={}>",
    "Decimal('{}')",
    "{}f0",
    ",",
];
