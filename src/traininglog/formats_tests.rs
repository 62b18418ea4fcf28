//! Log formats of many programs: the chosen series, its direction, its number of values, and the progress.

use super::Tracker;
use super::survey::{LogReading, Survey};
use crate::{Direction, Hints, Millis};

const STEPS: usize = 20;

fn reading(log: &str) -> LogReading {
    let mut survey = Survey::new(&Hints::default());
    survey.push(log.as_bytes());
    survey.finish();
    survey.reading()
}

/// Expands `template` for twenty steps: `{i}` is 0, 1, …; `{n}` 1, 2, …; `{s}` 0, 100, …; `{L}` a falling loss; `{R}` a rising reward;
/// `{A}` digits.
fn log(head: &str, template: &str) -> String {
    let step = |i: usize| {
        template
            .replace("{i}", &i.to_string())
            .replace("{n}", &(i + 1).to_string())
            .replace("{s}", &(i * 100).to_string())
            .replace("{L}", &format!("{:.4}", loss(i)))
            .replace("{R}", &format!("{:.2}", reward(i)))
            .replace("{A}", &(50 + i).to_string())
    };
    (0..STEPS).fold(head.to_owned(), |log, i| log + &step(i) + "\n")
}

fn loss(i: usize) -> f64 {
    0.1 + 2.3 * 0.93f64.powi(i as i32)
}

fn reward(i: usize) -> f64 {
    20.5 + 3.0 * i as f64
}

/// Header, line template, metric, direction, progress: (current, total).
type Case = (&'static str, &'static str, &'static str, Direction, Option<(f64, Option<f64>)>);

const DOWN: Direction = Direction::Down;
const UP: Direction = Direction::Up;

const CASES: &[Case] = &[
    (
        "epoch     train_loss  valid_loss  accuracy  time\n",
        "{i}         {L}      2.{A}      0.{A}    00:12",
        "train_loss",
        DOWN,
        Some((19.0, None)),
    ),
    (
        "",
        "json_stats: {\"eta\": \"1:02:03\", \"iter\": {s}, \"loss\": {L}, \"lr\": 0.0025, \"mem\": 3000, \"time\": 0.35}",
        "loss",
        DOWN,
        Some((1900.0, None)),
    ),
    // Lightning names the value of a step and the mean of an epoch.
    (
        "",
        "Epoch {i}: 100%|██████████| 469/469 [00:10<00:00, 45.2it/s, v_num=0, train_loss_step={L}, train_acc_step=0.{A}]",
        "train_loss_step",
        DOWN,
        Some((19.0, None)),
    ),
    (
        "",
        "Epoch {i}: 100%|██████████| 469/469 [00:10<00:00, 45.2it/s, v_num=0, train_loss_epoch={L}]",
        "train_loss_epoch",
        DOWN,
        Some((19.0, None)),
    ),
    ("", "steps: {s} loss: {L} iter time (s): 0.5{A} samples/sec: 12.{i}", "loss", DOWN, Some((1900.0, None))),
    (
        "",
        "2023-05-01 10:00:00 | INFO | train_inner | epoch 001:    {n} / 1000 loss={L}, nll_loss=1.{A}, ppl=9.{A}, wps=12345.6, num_updates={s}, lr=0.0005, gnorm=1.2{i}",
        "loss",
        DOWN,
        None,
    ),
    ("", "INFO:tensorflow:loss = {L}, step = {s} (0.1{A} sec)", "loss", DOWN, Some((1900.0, None))),
    (
        "",
        "I0812 12:00:00.123456 140123 train.py:140] epoch: {n}, train_loss: {L}, train_accuracy: {A}.2, test_loss: 2.{A}",
        "train_loss",
        DOWN,
        Some((20.0, None)),
    ),
    (
        "",
        "I0812 12:00:00.123456 140123 logging_writer.py:48] [{s}] accuracy=0.{A}, learning_rate=0.1, loss={L}, steps_per_second=3.{i}",
        "loss",
        DOWN,
        Some((1900.0, None)),
    ),
    (
        "",
        "12:34:11.123 [main] INFO  o.d.o.l.ScoreIterationListener - Score at iteration {s} is {L}",
        "Score",
        DOWN,
        Some((1900.0, None)),
    ),
    (
        "average  since         example  current\nloss     last          counter   label\n",
        "{L} 0.{A}            {s}   1.0000",
        "loss",
        DOWN,
        None,
    ),
    (
        "",
        "[2023-05-01 10:00:00,000 INFO] Step {s}/100000; acc:  {A}.71; ppl: 1{A}.7; xent: {L}; lr: 0.00012; 4321/4567 tok/s;     10 sec",
        "xent",
        DOWN,
        Some((1900.0, Some(100_000.0))),
    ),
    ("", "Iteration {n}, loss = {L}\nValidation score: 0.{A}", "loss", DOWN, Some((20.0, None))),
    (
        "",
        "|             Epoch |   {i} |\n|      AverageEpRet |   {R} |\n|          StdEpRet |   1{A}.2 |\n|             LossV |   30{i}.1 |\n|              Time |  {i}.1 |",
        "AverageEpRet",
        UP,
        Some((19.0, None)),
    ),
    (
        "",
        "[INFO] 3DBall. Step: {s}. Time Elapsed: 12.{A} s. Mean Reward: {R}. Std of Reward: 0.7{i}. Training.",
        "Mean Reward",
        UP,
        Some((1900.0, None)),
    ),
    ("", "iter {s} value {L}", "value", DOWN, Some((1900.0, None))),
    ("", "[ Info: Epoch {n} : train loss = {L}, test loss = 2.{A}", "train loss", DOWN, Some((20.0, None))),
    ("", "Epoche {n}/20 - Verlust: {L} - Genauigkeit: 0.{A}", "Verlust", DOWN, Some((20.0, Some(20.0)))),
    ("", "Époque {n} sur 20 : perte = {L}, exactitude = {A} %", "perte", DOWN, Some((20.0, Some(20.0)))),
    ("", "轮次 {n}/20 损失 {L} 学习率 0.001", "损失", DOWN, Some((20.0, Some(20.0)))),
    ("", "エポック {n}/20 損失: {L} 精度: 0.{A}", "損失", DOWN, Some((20.0, Some(20.0)))),
    ("", "Эпоха {n}/20, потери: {L}, точность: 0.{A}", "потери", DOWN, Some((20.0, Some(20.0)))),
    ("", "Época {n}/20 - pérdida: {L} - precisión: 0.{A}", "pérdida", DOWN, Some((20.0, Some(20.0)))),
    ("", "Cost after iteration {s}: {L}", "Cost", DOWN, Some((1900.0, None))),
    ("", "{n}: {L} loss, 0.{A} accuracy, 0.001 lr", "loss", DOWN, Some((20.0, None))),
    (
        "| epoch | train loss | val loss | lr |\n|-------|------------|----------|----|\n",
        "| {n} | {L} | 2.{A} | 1e-3 |",
        "train loss",
        DOWN,
        Some((20.0, None)),
    ),
    (
        "┌───────┬───────┐\n│ Epoch │ Loss  │\n├───────┼───────┤\n",
        "│ {n}     │ {L} │",
        "Loss",
        DOWN,
        Some((20.0, None)),
    ),
    ("epoch\tloss\tacc\n", "{n}\t{L}\t0.{A}", "loss", DOWN, Some((20.0, None))),
    (
        "      Iter       Train Loss   Remaining Time\n",
        "        {n}           {L}            9.12s",
        "Train Loss",
        DOWN,
        Some((20.0, None)),
    ),
    ("", "At iterate   {n}    f=  {L}D+02    |proj g|=  1.{A}D-01", "f", DOWN, Some((20.0, None))),
    ("", "trainer-1  | step {s} loss {L}", "loss", DOWN, Some((1900.0, None))),
    (
        "",
        "{\n    \"epoch\": {n},\n    \"train_loss\": {L},\n    \"val_accuracy\": 0.{A}\n}",
        "train_loss",
        DOWN,
        Some((20.0, None)),
    ),
    (
        "",
        "{s}:\tlearn: {L}\ttest: 2.{A}\tbest: 2.{A} ({s})\ttotal: {i}.1s\tremaining: 2{i}.3s",
        "learn",
        DOWN,
        Some((1900.0, None)),
    ),
    (
        "",
        "{'loss': 0.0{A}, 'learning_rate': 9e-07, 'num_tokens': {s}.0, 'reward': {R}, 'reward_std': 0.2, 'kl': 0.0001, 'epoch': 0.{A}}",
        "reward",
        UP,
        Some((0.69, None)),
    ),
    (
        "",
        "update {n}/20 | policy_loss -0.0{A} | value_loss {L} | entropy 1.{i} | mean_reward {R}",
        "mean_reward",
        UP,
        Some((20.0, Some(20.0))),
    ),
    (
        "",
        "2023-01-01 10:01:00,123 : INFO : -8.{A} per-word bound, {L} perplexity estimate based on a held-out corpus of 2000 documents with 12345 words",
        "perplexity",
        DOWN,
        None,
    ),
    (
        "",
        "\rSteps: {i}%|██        | {n}/200 [00:01<01:00,  3.3it/s, lr=5e-6, step_loss={L}]",
        "step_loss",
        DOWN,
        Some((20.0, Some(200.0))),
    ),
    ("", "differential_evolution step {n}: f(x)= {L}", "f", DOWN, Some((20.0, None))),
    ("", "finetune epoch {n}/20 loss={L} acc=0.{A}", "loss", DOWN, Some((20.0, Some(20.0)))),
    (
        "",
        "Epoche {n} von 20 | Trainingsverlust: {L} | Validierungsverlust: 2.{A} | Lernrate: 0,001",
        "Trainingsverlust",
        DOWN,
        Some((20.0, Some(20.0))),
    ),
    ("", "第{n}轮 / 共20轮, 训练损失: {L}, 准确率: {A}.2%, 用时: 12.3秒", "训练损失", DOWN, Some((20.0, Some(20.0)))),
    (
        "",
        "2023/05/01 10:00:00 - engine - INFO - Epoch(train)  [{n}][ 50/1000]  lr: 2.0e-02  eta: 1:20:30  time: 0.41  memory: 3500  loss: {L}",
        "loss",
        DOWN,
        Some((20.0, None)),
    ),
    (
        "",
        "\rEpochs: {A}%|██  | {n}/20 [00:10<00:20,  1.2it/s, t_loss={L}, i_acc=0.{A}]",
        "t_loss",
        DOWN,
        Some((20.0, Some(20.0))),
    ),
    ("", "Iteration: {n}, Func. Count: {A}, Neg. LLF: {L}", "Neg. LLF", DOWN, Some((20.0, None))),
    (
        "",
        ":::LOG {\"time_ms\": 15930{A}, \"key\": \"train_loss\", \"value\": {L}, \"metadata\": {\"epoch_num\": {n}}}",
        "train_loss",
        DOWN,
        Some((20.0, None)),
    ),
    (
        "│ Trial name            status       iter     total time (s)      ts     loss │\n",
        "│ PPO_CartPole_a1b2c    RUNNING       {n}            3.{A}   {s}    {L} │",
        "loss",
        DOWN,
        None,
    ),
    ("", "Style 1 loss: 9{A}.5\nStyle 2 loss: 8{A}.5\nTotal loss: {L}", "Total loss", DOWN, None),
    ("", "May 12 10:00:{A} node17 trainer[4711]: epoch {n} loss {L}", "loss", DOWN, Some((20.0, None))),
    (
        "0: loading\n0: using 4 workers\n0: epoch  train_loss  valid_loss\n",
        "0: {n}      {L}      2.{A}\n0: saved",
        "train_loss",
        DOWN,
        Some((20.0, None)),
    ),
    // The total is in the cell of its counter, and names are not English.
    ("|   época |   pérdida |\n", "|  {n}/20  |   {L} |", "pérdida", DOWN, Some((20.0, Some(20.0)))),
    // The heading is the counter, not the counter below it that starts again.
    (
        "",
        "===== 训练Epoch {n} =====\n100%|█████| 600/600 [11:50<00:00,  1.18s/it]\n平均训练损失: {L}",
        "损失",
        DOWN,
        Some((20.0, None)),
    ),
    ("", "fold {n} of 20\nepoch 1/2 lr 0.1\nepoch 2/2 loss {L}", "loss", DOWN, Some((20.0, Some(20.0)))),
    ("", "Epoch [{n}]/[20] \t Training Phase Loss: {L}", "Loss", DOWN, Some((20.0, Some(20.0)))),
    ("", "iteration:{n} step:1/100\niteration:{n} step:51/100, loss: {L}", "loss", DOWN, Some((20.0, None))),
    ("", "Average error for minibatches {i}-{n} is {L} over 64000 frames", "error", DOWN, Some((20.0, None))),
    ("", "At iteration 10{A}/1{A}/15{A}, rms={L}%", "rms", DOWN, Some((1569.0, None))),
    ("", "{n} iter, {i} epoch / 19 epochs, loss {L}", "loss", DOWN, Some((19.0, Some(19.0)))),
    // Progress bars with descriptive names, and a bracket around the whole line.
    (
        "",
        "\rRendering progress: {i}%|█  | {s}/40000 [02:15<09:18, loss={L}]",
        "loss",
        DOWN,
        Some((1900.0, Some(40_000.0))),
    ),
    ("", "\rTraining: {i}%|█  | {s}/40000 [02:15<09:18, loss={L}]", "loss", DOWN, Some((1900.0, Some(40_000.0)))),
    ("", "[2023-07-06 05:22:2{n} PM-fit.py-INFO:epoch: {n}, loss: {L}]", "loss", DOWN, Some((20.0, None))),
    ("", "INFO:epoch: {n}, loss: {L}", "loss", DOWN, Some((20.0, None))),
    ("", "(:epoch, {n}, :dloss, {L}f0, :gloss, 1.2{A}f0)", "dloss", DOWN, Some((20.0, None))),
    ("", "{i} Train total loss: {L} \tLatent loss: 9.{A}", "Train total loss", DOWN, Some((19.0, None))),
    ("", "Train {n} =========\nEPOCH[{n}/20] loss {L}", "loss", DOWN, Some((20.0, Some(20.0)))),
    ("", "Cost after lap {n}: {L}", "Cost", DOWN, Some((20.0, None))),
    ("", "step:{n} - actor/loss:{L} - critic/rewards/mean:{R}", "critic/rewards/mean", UP, Some((20.0, None))),
    ("", "loss at iteration {n} {L}", "loss", DOWN, Some((20.0, None))),
    ("2d_loss   \t3d_loss   \tlr   \n", "{L}\t7.0{A}\t0.01", "2d_loss", DOWN, None),
    ("", "{s}:\tlearn: {L}\ttest: 2.{A}\nscore of fold {n}: 0.6{A}", "learn", DOWN, None),
    ("", "Epoch {n} Train, mae:{L}, Cost: 71{A}.7 sec", "mae", DOWN, Some((20.0, None))),
    // Unknown names: a changing value beside a counter, and an even count beside a metric.
    ("", "epoch {n} flurb {L} wug 0.5", "flurb", DOWN, Some((20.0, None))),
    ("", "{\"visit\": {n}, \"loss\": {L}}", "loss", DOWN, Some((20.0, None))),
    ("", "{L} {s}", "column 1", DOWN, Some((1900.0, None))),
    ("% mean error\n", " {L}", "mean error", DOWN, None),
    (
        "Iterat #Fevals   function value  axis ratio\n",
        "   {n}     1{A} {L}             1.0e+00",
        "function value",
        DOWN,
        Some((20.0, None)),
    ),
    ("", "Epoch: [{n} | 600] loss: {L}", "loss", DOWN, Some((20.0, Some(600.0)))),
    ("", "-----{i}------\ntrain_loss: {L}\n-", "train_loss", DOWN, Some((19.0, None))),
    ("", "train loss after {n} epochs: {L}", "train loss", DOWN, Some((20.0, None))),
    ("", "Step {n}, det loss: {L}, bbox loss: {L}, all_loss: {L}", "all_loss", DOWN, Some((20.0, None))),
    ("", "Episode {n}, Market Return: 12.{A}%, Score: {R}", "Score", UP, Some((20.0, None))),
    ("decoder out (5 frames): 400\n", "Step {n} [6.4 sec/step, loss = {L}]", "loss", DOWN, Some((20.0, None))),
    ("", "{i} train {L}", "train", DOWN, Some((19.0, None))),
    ("", "Saved model at epoch {n} with loss: {L}", "loss", DOWN, Some((20.0, None))),
    ("", "==========\nGENERACION {n}\n==========\nPuntuacion: {L}", "Puntuacion", UP, Some((20.0, None))),
    ("TEST:\n  EVAL: False\nEVAL: False\n", "Epoch[{n}] loss: {L}", "loss", DOWN, Some((20.0, None))),
    ("", "[ Info: Epoch {n}\nsum(loss.(data, labels)) = {L} (tracked)", "loss", DOWN, Some((20.0, None))),
    (
        "| Epoch | Mini-batch | Validation |\n|       |       Loss |       Loss |\n",
        "| {n} | {L} | {L} |",
        "Mini-batch Loss",
        DOWN,
        Some((20.0, None)),
    ),
    (
        "",
        "  Epoch   gpu_mem   box   total\n  {i}/19   2G   0.1   640: 100%|####| 4/4 [00:01]\n  Class   Images   P   mAP@.5  mAP@.5:.95: 100%|####| 2/2 [00:01]\n    all    85    0.9    0.99    {L}",
        "mAP@.5:.95",
        UP,
        Some((19.0, Some(19.0))),
    ),
    // Hugging Face: a data set without a length, a single epoch, and steps that only the head counts.
    ("  Num Epochs = 9,223,372,036,854,775,807\n", "{'loss': {L}, 'epoch': 0.{A}}", "loss", DOWN, Some((0.69, None))),
    ("  Num Epochs = 1\n", "{'loss': {L}, 'epoch': 0.{A}}", "loss", DOWN, Some((0.69, Some(1.0)))),
    ("  Total optimization steps = 4,000\n", "step {s} loss {L}", "loss", DOWN, Some((1900.0, Some(4000.0)))),
    ("", "[{i}]\ttrain-gamma-nloglik:{L}", "train-gamma-nloglik", DOWN, Some((19.0, None))),
    // The epoch is named only by the data split.
    (
        "Scheduled epochs: 300 (epochs + cooldown_epochs).\n",
        "Train: {i} [ 100/1251 (  8%)]  Loss: {L} (6.{A})  Time: 0.412s,   621.36/s  (0.415s,   616.87/s)",
        "Loss",
        DOWN,
        Some((19.0, Some(300.0))),
    ),
    (
        "",
        "Train: [{i}/300][100/1251]\teta 0:12:40 lr 0.000012\t wd 0.0500\ttime 0.3612 (0.3812)\tloss {L} (6.{A})",
        "loss",
        DOWN,
        Some((19.0, Some(300.0))),
    ),
    // Epochs until an early stop.
    (
        "",
        "Epoch {n}: train loss {L}\nNo improvement for 1/10 epochs\nEarly stopping: 2/10 epochs without improvement\nWaiting 3/10 epochs before stopping",
        "train loss",
        DOWN,
        Some((20.0, None)),
    ),
    ("", "Train loss {s} {L} Grad Norm 1.{A} 2.31s/it", "Train loss", DOWN, Some((1900.0, None))),
    (
        "",
        "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n      {n}/100      2.5G      1.5{A}       {L}       1.6{A}        166        640: 12%|█▎        | 1/8 [00:00<00:02,  2.50it/s]",
        "cls_loss",
        DOWN,
        Some((20.0, Some(100.0))),
    ),
    // One of the terms of a reward is called a reward, too.
    (
        "",
        "{'loss': 0.0{A}, 'rewards/accuracy_reward/mean': 0.{A}, 'reward': {R}, 'epoch': 0.{A}}",
        "reward",
        UP,
        Some((0.69, None)),
    ),
    // The total stands elsewhere: in a configuration, beside an epoch that says nothing, or in a percentage.
    ("model:\n  iteration_count: 5000\n", "iteration {s} loss {L}", "loss", DOWN, Some((1900.0, Some(5000.0)))),
    ("train_steps: 3000\nwarmup_steps: 10\n", "step={s} loss={L}", "loss", DOWN, Some((1900.0, Some(3000.0)))),
    ("max_iter=2000\n", "[{s}] loss: {L}", "loss", DOWN, Some((1900.0, Some(2000.0)))),
    ("{'data': {'num_epochs': 90}}\n", "epoch {n} loss {L}", "loss", DOWN, Some((20.0, None))),
    ("", "Epoch:[1/1]({s}/39695) loss:{L} lr:0.0001", "loss", DOWN, Some((1900.0, Some(39_695.0)))),
    ("", "epoch 0, iteration {s}/2999, loss {L}", "loss", DOWN, Some((1900.0, Some(2999.0)))),
    ("", "{s} ({n}.50%) loss {L}", "loss", DOWN, Some((20.5, Some(100.0)))),
    ("", "Number of trials: 1/1\nstep {n} of 90 loss {L}", "loss", DOWN, Some((20.0, Some(90.0)))),
    ("", "Progress: {n} / 1600 total iterations\nloss: {L}", "loss", DOWN, Some((20.0, Some(1600.0)))),
    // The second number also moves.
    ("", "Batch {i}/20{s}, loss: {L}", "loss", DOWN, Some((19.0, None))),
    // Abbreviated counts, and counts behind a rule.
    ("", "step:{n}K smpl:{n}M loss:{L} grdn:49.836", "loss", DOWN, Some((20_000.0, None))),
    ("", "======>>>>>>[{n}] Train Loss: {L}  Train ACC: 0.452", "Train Loss", DOWN, Some((20.0, None))),
    ("", "s:{n} trl:{L} lr:0.000001 norm:15.37", "trl", DOWN, Some((20.0, None))),
    // Two forms of one report, best values, and training lines below the heading of an evaluation.
    ("", "Epoch {n}: loss {L}31\nEpoch {n} summary: loss {L}", "loss", DOWN, Some((20.0, None))),
    (
        "",
        "Epoch {n}\nAccuracy: 0.{A}, Class loss: {L}\nBest accuracy: 0.99, Class loss: 0.1",
        "Class loss",
        DOWN,
        Some((20.0, None)),
    ),
    ("", "loss: {L}\nEvaluating model...\nPSNR: 2{A}.5", "loss", DOWN, None),
    // A value before its name, and a table of which the rows have the names.
    ("", "step {n}\n\t{L}\t = loss (mean)\n\t1{A}.2s\t = runtime", "loss", DOWN, Some((20.0, None))),
    (
        "",
        "epoch {n}\n|          | train | validation |\n| accuracy | 0.{A} | 0.5 |\n| loss     | {L} | 2.{A} |",
        "loss",
        DOWN,
        Some((20.0, None)),
    ),
    // The rows of a table are those of data splits.
    (
        "",
        "Epoch {n}\n│ rating │ loss  │ acc   │\n│ train  │ {L} │ 0.{A} │\n│ vali   │ 5.{A}00 │ 0.4 │\n│ test   │ 6.{A}00 │ 0.3 │",
        "loss",
        DOWN,
        Some((20.0, None)),
    ),
    // A byte order mark, a header with commas and blanks, a count in the first cell, and a message without a newline.
    ("\u{feff}", "epoch {n} loss {L}", "loss", DOWN, Some((20.0, None))),
    ("epoch, wall, LR, loss\n", "   {n},   8.{A},  0.005,   {L},", "loss", DOWN, Some((20.0, None))),
    (
        "## avg. loss \tder. mag. \tstep size\n",
        "{n} {L}   \t0.00001   \t1.00000",
        "avg. loss",
        DOWN,
        Some((20.0, None)),
    ),
    ("", "\r{n}/20 - loss: {L}WARNING:root:skipped", "loss", DOWN, Some((20.0, Some(20.0)))),
    // A process between a time and a level, counts that are done, and counts of which a score is the ratio.
    (
        "",
        "2021-01-25 07:46:{A},137 P8266 INFO Train loss: {L}\n2021-01-25 07:46:{A},138 P8266 INFO *** Epoch={n} end ***",
        "Train loss",
        DOWN,
        Some((20.0, None)),
    ),
    (
        "",
        "Monitoring:\n\tEpochs seen: {n}\n\tBatches seen: {s}\n\tobjective: {L}",
        "objective",
        DOWN,
        Some((20.0, None)),
    ),
    ("", "training {n}% complete, current error {L}", "current error", DOWN, Some((20.0, Some(100.0)))),
    ("", "Epoch {n} completed out of 50 loss: {L}", "loss", DOWN, Some((20.0, Some(50.0)))),
    ("", "Epoch: {n}\nLoss: {L} | Acc: 90.0% (9{A}/1000)", "Loss", DOWN, Some((20.0, None))),
    ("", "Train: {n}/80 (  {n}%) [ 50/464 ( 11%)]  Loss: {L}", "Loss", DOWN, Some((20.0, Some(80.0)))),
    ("", "0m {n}s (- 1m 3s) ({s} {n}%) {L}", "value", DOWN, Some((1900.0, None))),
    // The name of a value in an outer object, wide punctuation, and an evaluation below a decorated heading.
    ("", "{\"name\": \"loss\", \"data\": {\"epoch\": {n}, \"value\": {L}}}", "loss", DOWN, Some((20.0, None))),
    ("", "第{n}轮训练结束，训练集平均损失为：{L}，用时12.3秒", "训练集平均损失为", DOWN, Some((20.0, None))),
    (
        "",
        "==> Start Training Epoch {n}, lr=0.01 ...\nloss={L} (2.{A})\n++> Evaluate at epoch {n} ...\nloss=5.{A} (5.1)",
        "loss",
        DOWN,
        Some((20.0, None)),
    ),
    // Bars of a preparation and of an evaluation.
    (
        "\rDownloading: 100%|███| 900/900 [00:01<00:00, 9.1MB/s]\n",
        "step {n} loss {L}\n\rValidating: 50%|█  | 5/10 [00:01<00:01, 4.1it/s]",
        "loss",
        DOWN,
        Some((20.0, None)),
    ),
];

#[test]
fn bars_of_preparations_and_builds_are_no_progress() {
    for line in [
        "\rDownloading model: {A}%|█   | {A}/100 [00:01<00:09, 9.1MB/s]",
        "\rMap: {A}%|█   | {A}/100 [00:01<00:09, 5120.1 examples/s]",
        "\rLoading checkpoint shards: {A}%|█   | {n}/30 [00:01<00:09, 1.1it/s]",
        "\rEvaluating: {A}%|█   | {A}/100 [00:01<00:09, 1.1it/s]",
        "[ {A}%] Building CXX object src/part.cpp.o",
        "[{A}/243] Compiling part{A}.cc",
    ] {
        let read = reading(&log("", line));
        assert_eq!((read.metric, read.progress), (None, None), "{line}");
    }
}

#[test]
fn formats_of_many_programs_are_understood() {
    let mut wrong = Vec::new();
    for (head, template, metric, direction, progress) in CASES {
        let read = reading(&log(head, template));
        let first = read.observations.first().map(|o| o.value);
        let expected = if metric.to_lowercase().contains("re") && *direction == UP { reward(0) } else { loss(0) };
        let scaled =
            first.is_some_and(|first| (first - expected).abs() < 1e-3 || (first - expected * 100.0).abs() < 0.1);
        let named =
            read.metric.as_deref() == Some(*metric) || read.metric.as_deref().is_some_and(|m| m.ends_with(metric));
        let printed = read.progress.map(|p| (p.current, p.total));
        let right = named
            && scaled
            && read.direction == Some(*direction)
            && read.observations.len() == STEPS
            && (progress.is_none() || printed == *progress);
        if !right {
            wrong.push(format!(
                "{template}\n    {:?} {:?} {} values from {first:?}, progress {printed:?}",
                read.metric,
                read.direction,
                read.observations.len()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The units done at the end of the log, including parts of an epoch.
fn done(log: &str) -> Option<f64> {
    let mut tracker = Tracker::new(&Hints::default());
    tracker.push(log.as_bytes(), Millis(0));
    tracker.peek(Millis(0)).progress.map(|progress| progress.current)
}

#[test]
fn a_bar_in_the_first_epoch_is_not_the_progress_of_the_job() {
    let text = log("Epoch 1/20\n", "{n}1/469 ━━━━━━━━━━━━ 3s 5ms/step - accuracy: 0.7321 - loss: {L}");
    let progress = reading(&text).progress.map(|printed| (printed.current, printed.total));
    assert_eq!((progress, done(&text)), (Some((1.0, Some(20.0))), Some(201.0 / 469.0)));
}

#[test]
fn a_heading_begins_an_epoch_and_a_value_under_it_ends_it() {
    let heading = "=== Starting epoch 1 of 25 ===\n";
    let keras = "Epoch 1/25\n79/79 - 4s - 13ms/step - accuracy: 0.5 - loss: 1.328\n";
    let torch = "Epoch 0/24\n----------\ntrain Loss: 0.5 Acc: 0.3\n";
    assert_eq!((done("Epoch 1/25\n"), done(heading), done(&torch[..11])), (Some(0.0), Some(0.0), Some(0.0)));
    assert_eq!((done(keras), done(torch)), (Some(1.0), Some(1.0)));
    assert_eq!((done(&format!("{torch}Epoch 1/24\n")), done("Epoch 1/25\nEpoch 2/25\n")), (Some(1.0), Some(1.0)));
    assert_eq!(done("loss 0.3\nFinished epoch 1 of 10\n"), Some(1.0), "more than a heading");
}

#[test]
fn an_epoch_whose_lines_count_several_steps_is_not_complete() {
    let epoch = |n: usize| log("", &format!("Epoch {n}/3, Step {{n}}00, Loss: {{L}}, LR: 2.0e-05"));
    assert_eq!(done(&(1..=3).map(epoch).collect::<String>()), Some(2.0));
    assert_eq!(done(&log("", "Epoch {n}/20, Step {n}00, Loss: {L}")), Some(20.0), "a line at the end of each epoch");
}

#[test]
fn rewards_that_are_whole_numbers_are_preferred_over_a_loss() {
    let read = reading(&log("", "episode {n}, return: {n}5, loss: {L}"));
    assert_eq!((read.metric.as_deref(), read.direction), (Some("return"), Some(UP)));
}

#[test]
fn the_target_column_of_an_optimiser_is_its_metric() {
    let read = reading(&log("|   iter    |  target   |    x1     |\n---------\n", "| {n}   | {R} | 0.4{A} |"));
    assert_eq!((read.metric.as_deref(), read.direction), (Some("target"), Some(UP)));
    assert_eq!(read.progress.map(|progress| progress.current), Some(20.0));
}

#[test]
fn a_name_in_a_path_is_no_metric() {
    let read = reading(&log("", "bin/score /data/sorbian-{n} 0.{A}"));
    assert_eq!(read.metric, None);
}

#[test]
fn the_log_of_a_program_that_does_not_train_has_no_evaluation_function() {
    for template in [
        "[{i}%] Building CXX object src/CMakeFiles/x.dir/file{i}.cpp.o",
        "10.0.0.{i} - - [21/Nov/2026:10:00:{A} +0000] \"GET /api/{i} HTTP/1.1\" 200 10{A} \"-\" \"curl/7.1\" 0.0{A}",
        "24/01/01 10:00:{A} INFO TaskSetManager: Finished task {i}.0 in stage 3.0 (TID {s}) in 2{A} ms on host (executor 1) ({n}/40)",
        "64 bytes from 1.1.1.1: icmp_seq={i} ttl=57 time=1{A}.3 ms",
        "learning_rate: 0.{A}, batch_size: {A}, grad_norm: {L}, step time: {L} s",
        "Epoch {n}: val_loss improved from 0.{A} to {L}, saving model to best.h5",
        "D_KERNEL_MAP=512 POOL_SIZE=4",
    ] {
        let read = reading(&log("", template));
        assert_eq!(read.metric, None, "{template}");
    }
}

#[test]
fn a_series_is_chosen_within_twenty_lines() {
    for (head, template, metric, ..) in CASES {
        let log = log(head, template);
        let beginning: String = log.split_inclusive('\n').take(20).collect();
        let chosen = reading(&beginning).metric;
        assert!(chosen.is_some(), "{metric} of {template}");
    }
}

#[test]
fn a_loss_that_is_printed_with_a_checkpoint_is_no_training_value() {
    let text = log("", "loss = {L}, step = {s}");
    let read = reading(&(text + "Saving dict for global step 1900: accuracy = 0.9, global_step = 1900, loss = 39.1\n"));
    assert_eq!((read.metric.as_deref(), read.observations.len()), (Some("loss"), STEPS));
    assert_eq!(
        read.observations.last().map(|o| (o.value * 1e4).round() / 1e4),
        Some((loss(STEPS - 1) * 1e4).round() / 1e4)
    );
}

#[test]
fn a_value_before_the_first_count_is_the_first_point_of_the_curve() {
    let read = reading(&("value 9.5\n".to_owned() + &log("", "iter {s} value {L}") + "final value 0.6\n"));
    assert_eq!((read.observations.len(), read.observations[0].value), (STEPS + 1, 9.5));
    // A name that repeatedly appears without a count is another series.
    let read = reading(&log("", "loss 3.{A}\nepoch {n} loss {L}"));
    assert_eq!(read.observations.len(), STEPS + 1);
    // A whole number before the first count may be a setting.
    let read = reading(&("value 9\n".to_owned() + &log("", "iter {s} value {L}")));
    assert_eq!(read.observations.len(), STEPS);
}

#[test]
fn the_same_name_for_two_splits_of_the_data_is_two_series() {
    let read = reading(&log("", "[train] epoch {n}/20 loss {L}\n[valid] epoch {n}/20 loss 2.{A}"));
    assert_eq!((read.metric.as_deref(), read.observations.len()), (Some("loss"), STEPS));
    let names: Vec<&str> = read.candidates.iter().map(|candidate| candidate.metric.as_str()).collect();
    assert_eq!(names, ["train loss", "valid loss"]);
}

#[test]
fn a_validation_metric_is_preferred_if_it_improves_and_is_about_as_frequent() {
    let metric = |text: &str| reading(text).metric;
    let beside = |validation: &str| metric(&log("", &format!("epoch {{n}}/20 loss {{L}} val_loss {validation}")));
    assert_eq!(beside("1{L}").as_deref(), Some("val_loss"));
    assert_eq!(beside("2.{A}").as_deref(), Some("loss"), "it only gets worse");
    let accuracy = log("", "epoch {n}/20 acc 0.{A} val_acc 0.1{A}");
    assert_eq!(metric(&accuracy).as_deref(), Some("val_acc"));
    let spaced = |every: usize| {
        let training = |step: usize| format!("step {step} loss {:.4}\n", loss(step / 10));
        let validation = |step: usize| format!("step {step} val_loss {:.4}\n", loss(step / 10) + 1.0);
        let line = |step| if step % every == 0 { training(step) + &validation(step) } else { training(step) };
        metric(&(1..200).map(line).collect::<String>())
    };
    assert_eq!(spaced(2).as_deref(), Some("val_loss"));
    assert_eq!(spaced(10).as_deref(), Some("loss"), "it is rare");
}

#[test]
fn a_total_that_is_printed_only_after_the_last_epoch_is_ignored() {
    let text = log("", "epoch {i} | loss: {L}");
    let read = reading(&(text + "Stop training because you reached max_epochs = 20 with best_epoch = 15\n"));
    assert_eq!(read.progress.map(|p| (p.current, p.total)), Some((19.0, None)));
}

#[test]
fn a_loss_of_whole_numbers_is_unsure_and_the_number_of_an_error_is_none() {
    let read = |name: &str| reading(&(1..=12).map(|n| format!("{name}: {n}\n")).collect::<String>());
    let loss = read("loss");
    assert_eq!(loss.metric.as_deref(), Some("loss"));
    assert!((0.2..0.5).contains(&loss.confidence), "{}", loss.confidence);
    assert_eq!(read("Error").metric, None);
}

#[test]
fn values_without_a_counter_or_a_trend_have_low_confidence() {
    let line =
        |sample: usize| format!("Prediction: A{} (PER: 0.3 and Accuracy: {}.5)\n", sample % 2, sample * 37 % 100);
    let read = reading(&(0..99).map(line).collect::<String>());
    assert!(read.metric.is_some() && read.confidence < 0.5, "{}", read.confidence);
    let read = reading(&"findfont: score(<Font 'Noto' normal>) = 0.05\n".repeat(3));
    assert!(read.confidence < 0.5, "{}", read.confidence);
}

#[test]
fn empty_brackets_are_no_part_of_a_name() {
    for line in ["epoch {n}\nmodel.loss(): {L}", "epoch {n}\nloss() = {L}", "epoch {n} loss []: {L}"] {
        let read = reading(&log("", line));
        let values = (read.observations.len(), read.observations.first().map(|first| first.value));
        assert_eq!(values, (STEPS, Some(2.4)), "{line}");
    }
}

#[test]
fn a_setting_that_begins_with_the_name_of_an_evaluation_is_no_heading() {
    for begin in ["test_pipeline = [\n", "eval=[\n", "validation_set = [ \n"] {
        let read = reading(&log(begin, "epoch {n}/20 loss {L}"));
        assert_eq!((read.observations.len(), read.observations[0].value), (STEPS, 2.4), "{begin}");
    }
}

#[test]
fn an_f_measure_is_a_score_and_outer_steps_are_progress() {
    let read = reading(&log("", "    Outer Step:   {i}    rec:0.6{A} prec:0.7{A} F-measure:0.6{A}"));
    assert_eq!((read.metric.as_deref(), read.direction), (Some("F-measure"), Some(UP)));
    assert_eq!(read.progress.map(|p| p.current), Some(19.0));
}
