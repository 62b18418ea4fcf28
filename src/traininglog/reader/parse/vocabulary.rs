//! The words of training logs by meaning. This file is data only; the rules are in `lexicon`.
//!
//! A loss is minimised by training, so it ranks highest; scores are derived from it and rank slightly lower; words that also have other
//! uses rank lower still. Besides English, the lists contain German, French, Spanish, Italian, Portuguese, Dutch, Polish, Swedish,
//! Russian, Turkish, Chinese, Japanese and Korean words.

use super::meaning::Count;
use crate::Direction::{self, Down, Up};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Words of evaluations: direction of improvement, weight (how typical, 1 for a loss), words. Rewards have the highest weight, because the
/// losses of an agent only measure how well its networks fit.
const METRICS: &[(Direction, f32, &str)] = &[
    (Down, 1.0, "loss verlust perte pérdida perdida perdita perda verlies strata förlust потеря потери потерь kayıp"),
    (Down, 0.95, "losses cost logloss mlogloss multilogloss crossentropy xent pertes pérdidas"),
    (Down, 0.9, "nll mse rmse deviance inertia kosten coût costo custo"),
    // The negatives of a likelihood and of its bound, as one word.
    (
        Down,
        0.9,
        "nloglik nloglikelihood nlikelihood nelbo negloglik negloglikelihood neglikelihood negelbo negativeloglik \
        negativeloglikelihood negativelikelihood negativeelbo",
    ),
    (Down, 0.88, "mae rmsle msle"),
    (Down, 0.86, "mape smape"),
    (
        Down,
        0.85,
        "objective error perplexity ppl bpc bpd bpb ce bce distortion fid kid smoothl huber logcosh hinge fehler erreur \
        errore erro błąd ошибка hata",
    ),
    (Down, 0.8, "err rms lpips wer cer bcer eer regret chamfer fout"),
    (Down, 0.75, "bwer epe"),
    (Down, 0.7, "divergence stress risk ter rel functionvalue"),
    (Down, 0.55, "energy obj"),
    (Up, 1.1, "reward rew return ret eprewmean epretmean epr"),
    (Up, 0.9, "rewards returns belohnung récompense recompensa ricompensa награда"),
    (Up, 0.85, "elbo likelihood loglik loglikelihood llf logposterior"),
    (Up, 0.8, "objf llh score fitness puntuación puntuacion pontuação pontuacao punteggio punktzahl"),
    (
        Up,
        0.75,
        "acc accuracy bleu r2 psnr genauigkeit exactitude exactitud precisión accuratezza acurácia acuracia \
        nauwkeurigheid dokładność точность doğruluk",
    ),
    (Up, 0.72, "auc auroc aucpr auprc prauc ndcg hr"),
    (
        Up,
        0.7,
        "ll f1 fscore fbeta fmeasure hmean map miou dice jaccard mcc rouge profit elo rsq rsquared mrr hit hits top1 prec1 ssim \
        précision",
    ),
    (Up, 0.65, "correct kappa meteor cider chrf top5 prec5 correlation pearson spearman pearsonr"),
    (Up, 0.6, "precision recall ap iou corr wins win winrate utility"),
    (Up, 0.5, "em logprob"), // some print the negative logprob
];

/// Words of evaluations in languages without blanks between words: searched anywhere in a name.
pub(super) const METRICS_WITHIN: &[(Direction, f32, &str)] = &[
    (Down, 1.0, "损失 損失 ロス 손실"),
    (Down, 0.85, "误差 誤差 오차"),
    (Up, 0.75, "准确 準確 正确 正解率 精度 정확도"),
    (Up, 0.9, "奖励 報酬 보상"),
];

/// Names that are an evaluation only if they are the whole name: CatBoost's `learn`, Darknet's `avg`, Optuna's `value`.
const BARE: &[(Option<Direction>, f32, &str)] = &[
    (Some(Down), 0.5, "learn fval"),
    (Some(Down), 0.45, "train training avg"),
    (Some(Down), 0.4, "test valid validation val f fx fun"),
    (None, 0.45, "value performance"),
    (Some(Up), 0.4, "target"),
    (None, 0.4, "metric"),
];

/// Words of a progress counter.
const COUNTERS: &[(Count, &str)] = &[
    (
        Count::Epoch,
        "epoch epochs ep epoche epochen époque époques epoque época épocas epoca épocha epocha epoka эпоха эпохи 轮 轮次 \
        周期 エポック 에포크 에폭",
    ),
    (
        Count::Step,
        "step steps globalstep timestep timesteps update updates up upd frame frames schritt étape paso passo stap \
        krok шаг 步 步数 ステップ 스텝",
    ),
    (
        Count::Iteration,
        "iteration iterations iterat iter iters it itr itn iterate niter itération iteración iterazione iteração итерация 迭代 \
        迭代次数 反復 반복 iteracion iteracao sweep generation gen pass passes cycle \
        generación generacion geração geracao generazione génération",
    ),
    (Count::Batch, "batch batches nbatch minibatch minibatches 批次 バッチ"),
    (Count::Round, "round rounds runde tree trees"),
    (Count::Episode, "episode episodes"),
    (Count::Trial, "trial trials"),
    (Count::Fold, "fold folds"),
    (Count::Kimg, "kimg"),
    (Count::Tick, "tick"),
    (Count::Percent, "progress fortschritt progression progreso 进度 進捗"),
    (Count::Sample, "sen counter"),
];

/// Words whose rate is an evaluation; any other rate is a speed or a setting.
const RATED: &[(Direction, &str)] =
    &[(Down, "error err miss"), (Up, "win success hit pass accuracy detection recognition")];

/// Words that make any name a time, a size, a setting or a spread.
const OTHER: &str = "lr time times eta sec secs seconds ms msec min mins minutes hours days elapsed remaining duration runtime \
    latency wall walltime clock date timestamp speed throughput fps ips wps ups tps qps sps tokens toks words \
    samples images imgs sentences examples instances mem memory gpu gpus cpu cpus ram vram mb gb kb mib gib \
    cpumem gpumem bytes size sizes shape dim dims grad grads gradient gradients gnorm norm scale scaler momentum \
    mom wd decay beta betas alpha gamma eps epsilon temperature temp dropout seed num number count counts \
    num_samples params parameters version port pid rank world worker workers device devices node nodes std \
    stddev stdev var variance sigma lengthscale noise clip clipfrac clipped tol tolerance threshold thresh \
    target goal desired initial init baseline augment mfu flops tflops gflops wpb bsz oom skipped patience \
    interval frequency freq limit maximum minimum margin delta smoothing weight weights coef coeff coefficient \
    lambda factor penalty bias id index idx offset level width height length len layer layers hidden vocab \
    vocabulary maxlen window buffer cache load usage util percent ratio fraction frac year month day hour \
    loading loaded improved improve timing latency_ms  higher lower than available used \
    free total_time stepsize update_rate warmup finished_in took cost_time lrate lr0 lr1 lr2 trainable features \
    bins leaves leaf depth iou_t iou_thr explained entropy kl support positive negative_count change p \
    port_number nan success_count data reader batch_cost bandwidth hz nnz nnzs maintenance speedup capability \
    cuda box lifetime market benchmark";

/// Words that qualify an evaluation without making it more or less typical.
const NEUTRAL: &str = "total all overall mean average avg running current cur main step epoch batch iter final last per sample log model \
    global smoothed smooth ema episode ep env runners rollout eval the in on of metrics metric results \
    result value micro macro weighted mb minibatch now train training trn tr learn val valid validation dev \
    holdout cv test testing evaluation set";

/// Words that mark a value as a repetition or a summary of others.
const SECONDARY: &str = "saving saved save best max highest lowest previous prev old top worst initial reg aux";

/// Terms of a sum, such as the position of a box or the smoothness of a mask. The classification or the total is more informative.
const PARTS: &str = "l1 l2 smooth box bbox loc localization rpn dfl mask reg aux regression commitment";

/// Words that may precede a counter without changing its meaning.
const BEFORE_COUNTER: &str = "train training global current end of the in begin start starting at for and valid val validation eval \
    evaluation test testing dev idx id no nr number load model results result summary finished n i total num \
    after completed done cur curr this cv 训练 訓練 学習 훈련 验证 検証 검증 第 key learner actor agent env environment trainer \
    optimization outer";

/// Function words, which name nothing.
const JOINING: &str = "to from with and or the a an of in on at by is was than then as for up it its";

/// Words that turn the name of a counter into that of its total.
const DECLARES: &str = "max num n total nb train training maximum scheduled of number no";

/// The meanings of one word.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Word {
    pub metric: Option<(Direction, f32)>,
    pub bare: Option<(Option<Direction>, f32)>,
    pub counter: Option<Count>,
    pub rated: Option<Direction>,
    pub other: bool,
    pub neutral: bool,
    pub secondary: bool,
    pub part: bool,
    pub before_counter: bool,
    pub declares: bool,
    pub joining: bool,
}

/// Slots of the table: a power of two, at most a third filled.
const SLOTS: usize = 4096;

/// The lists as an open-addressed hash table.
static WORDS: OnceLock<Vec<Option<(&'static str, Word)>>> = OnceLock::new();

/// Returns the meanings of `word`, in lower case; the default for an unknown word.
pub(super) fn word(word: &str) -> Word {
    let words = WORDS.get_or_init(table);
    let mut slot = slot(word);
    while let Some((known, meaning)) = &words[slot] {
        if *known == word {
            return *meaning;
        }
        slot = (slot + 1) % SLOTS;
    }
    Word::default()
}

/// The initial value of [`fnv1a`].
pub(super) const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// Returns the FNV-1a hash of a text that continues the hashed one.
pub(super) fn fnv1a(hash: u64, word: &str) -> u64 {
    word.bytes().fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn slot(word: &str) -> usize {
    let hash = fnv1a(FNV_OFFSET, word);
    (hash ^ (hash >> 29)) as usize % SLOTS
}

fn table() -> Vec<Option<(&'static str, Word)>> {
    let mut table = vec![None; SLOTS];
    for (word, meaning) in sorted() {
        let mut slot = slot(word);
        while table[slot].is_some() {
            slot = (slot + 1) % SLOTS;
        }
        table[slot] = Some((word, meaning));
    }
    table
}

fn sorted() -> BTreeMap<&'static str, Word> {
    let mut table: BTreeMap<&'static str, Word> = BTreeMap::new();
    let mut mark = |list: &'static str, set: &dyn Fn(&mut Word)| {
        list.split_ascii_whitespace().for_each(|word| set(table.entry(word).or_default()));
    };
    for (direction, weight, list) in METRICS {
        mark(list, &|word| word.metric = Some((*direction, *weight)));
    }
    for (direction, weight, list) in BARE {
        mark(list, &|word| word.bare = Some((*direction, *weight)));
    }
    for (count, list) in COUNTERS {
        mark(list, &|word| word.counter = Some(*count));
    }
    for (direction, list) in RATED {
        mark(list, &|word| word.rated = Some(*direction));
    }
    mark(OTHER, &|word| word.other = true);
    mark(NEUTRAL, &|word| word.neutral = true);
    mark(SECONDARY, &|word| word.secondary = true);
    mark(PARTS, &|word| word.part = true);
    mark(BEFORE_COUNTER, &|word| word.before_counter = true);
    mark(DECLARES, &|word| word.declares = true);
    mark(JOINING, &|word| word.joining = true);
    table
}
