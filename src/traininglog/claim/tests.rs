//! Tables of the claims that commands, environments and files make, and of those they do not make.

use super::*;
use crate::ProgressUnit::{Epoch, Iteration, Round, Sample, Step};

/// Splits a line at spaces; `·` stands for a space inside a word.
fn of(line: &str) -> Vec<Claim> {
    let words: Vec<String> = line.split(' ').map(|word| word.replace('·', " ")).collect();
    of_command(&words)
}

fn check(line: &str, unit: ProgressUnit, total: f64, key: &str) {
    let claims = of(line);
    let [claim] = claims.as_slice() else { panic!("{line}: {claims:?}") };
    assert_eq!((claim.unit, claim.total, claim.key.as_str()), (Some(unit), total, key), "{line}");
    assert_eq!(claim.origin, ClaimOrigin::Command, "{line}");
    assert!((MIN_CONFIDENCE..=1.0).contains(&claim.confidence), "{line}: {claim:?}");
}

#[test]
fn totals_are_found_in_common_forms_of_commands() {
    for (line, unit, total, key) in [
        ("python train.py --epochs 50", Epoch, 50.0, "--epochs"),
        ("python train.py --epochs=50 --lr 0.1", Epoch, 50.0, "--epochs"),
        ("python train.py -epochs 50", Epoch, 50.0, "-epochs"),
        ("python train.py -e 50", Epoch, 50.0, "-e"),
        ("python train.py --nepochs 20", Epoch, 20.0, "--nepochs"),
        ("python train.py --nEpochs 20", Epoch, 20.0, "--nEpochs"),
        ("python train.py --nb_epoch=20", Epoch, 20.0, "--nb_epoch"),
        ("python train.py --epoch 100", Epoch, 100.0, "--epoch"),
        ("python run_glue.py --num_train_epochs 3 --seed 42", Epoch, 3.0, "--num_train_epochs"),
        ("python run_glue.py --num-train-epochs=2.5", Epoch, 2.5, "--num-train-epochs"),
        ("python train.py --max_steps 1_000", Step, 1000.0, "--max_steps"),
        ("python train.py --max-iter 500", Iteration, 500.0, "--max-iter"),
        ("python train.py --maxIter=500", Iteration, 500.0, "--maxIter"),
        ("python ppo.py --total-timesteps 1e6", Step, 1e6, "--total-timesteps"),
        ("python a2c.py --num-env-steps 10 --total_timesteps=2M", Step, 2e6, "--total_timesteps"),
        ("python pretrain_gpt.py --train-iters 500000 --lr-decay-iters 320000", Iteration, 5e5, "--train-iters"),
        ("fairseq-train data --max-epoch 30 --save-interval 1", Epoch, 30.0, "--max-epoch"),
        ("fairseq-train data --max-update 50k --warmup-updates 4000", Step, 50_000.0, "--max-update"),
        ("python gan.py --kimg 25000 --snap 50", Sample, 25_000.0, "--kimg"),
        ("python dqn.py --num_episodes 600 --max_episode_steps 200", Iteration, 600.0, "--num_episodes"),
        ("python xgb.py --n_estimators 400 --n_jobs 4 --early_stopping_rounds 20", Round, 400.0, "--n_estimators"),
        ("xgboost train.conf num_round=100 eta=0.3", Round, 100.0, "num_round"),
        ("lightgbm config=train.conf num_iterations=100", Iteration, 100.0, "num_iterations"),
        ("python lgb.py --num_boost_round 300", Round, 300.0, "--num_boost_round"),
        ("python train.py trainer.max_epochs=50 optimizer.lr=0.1", Epoch, 50.0, "trainer.max_epochs"),
        ("python train.py +train.epochs=3 ++trainer.devices=2", Epoch, 3.0, "+train.epochs"),
        ("python train.py --gin_bindings=train.num_epochs=10", Epoch, 10.0, "train.num_epochs"),
        ("python train.py --gin_bindings train.num_epochs·=·10", Epoch, 10.0, "train.num_epochs"),
        ("t2t-trainer --hparams=train_steps=1000,batch_size=32", Step, 1000.0, "train_steps"),
        ("python train_net.py --config-file c.yml SOLVER.MAX_ITER 90000", Iteration, 90_000.0, "SOLVER.MAX_ITER"),
        ("python tools/train.py c.py --cfg-options runner.max_epochs=12", Epoch, 12.0, "runner.max_epochs"),
        ("python tools/train.py -c c.yml -o Global.epoch_num=100", Epoch, 100.0, "Global.epoch_num"),
        ("python train.py --override {\"epochs\":·7,\"patience\":·3}", Epoch, 7.0, "epochs"),
        ("torchrun --nproc_per_node 2 -n 4 train.py --epochs 9", Epoch, 9.0, "--epochs"),
        ("sh -c EPOCHS=5·python·x.py", Epoch, 5.0, "EPOCHS"),
        ("bash -lc cd·/src·&&·python·train.py·--epochs·7·|·tee·log", Epoch, 7.0, "--epochs"),
        ("sh -ec export·MAX_STEPS=40;·exec·python·x.py·\"--seed\"·'3'", Step, 40.0, "MAX_STEPS"),
        ("sh -c python·x.py·--epochs·'12'·#·--epochs·99", Epoch, 12.0, "--epochs"),
        ("sh -c nice·-n·10·python·x.py·--epochs·8", Epoch, 8.0, "--epochs"),
        ("python3.12 -c import·m;·m.fit(x,·epochs=5,·batch_size=32)", Epoch, 5.0, "epochs"),
        ("/bin/sh -c python·-c·'fit(n_epochs=6)'", Epoch, 6.0, "n_epochs"),
        ("python train.py --epochs 5 --epochs 10", Epoch, 10.0, "--epochs"),
        ("python train.py --epochs -1 --max_steps 70", Step, 70.0, "--max_steps"),
        (
            "torchrun --nproc_per_node=8 train.py --epochs 300 --warmup-epochs 5 --cooldown-epochs 10 --decay-epochs 2.4 -b 128",
            Epoch,
            300.0,
            "--epochs",
        ),
        ("python main.py -a resnet50 --epochs 90 --start-epoch 0 -j 4 -b 256 -p 10 /data", Epoch, 90.0, "--epochs"),
        (
            "python train.py config/s.py --max_iters=2000 --lr_decay_iters=2000 --eval_iters=20 --log_interval=1",
            Iteration,
            2000.0,
            "--max_iters",
        ),
        (
            "yolo detect train data=coco128.yaml epochs=100 imgsz=640 patience=50 warmup_epochs=3.0",
            Epoch,
            100.0,
            "epochs",
        ),
        (
            "onmt_train -train_steps 100000 -valid_steps 10000 -save_checkpoint_steps 10000 -warmup_steps 8000",
            Step,
            1e5,
            "-train_steps",
        ),
        (
            "python train.py fit --trainer.max_epochs 10 --trainer.limit_train_batches 5 --model.lr 0.1",
            Epoch,
            10.0,
            "--trainer.max_epochs",
        ),
        (
            "python train.py --iterations 30000 --test_iterations 7000 30000 --save_iterations 7000",
            Iteration,
            30_000.0,
            "--iterations",
        ),
        (
            "python -m imagen --config=c.py --config.num_train_steps=1000 --config.eval_every_steps=10",
            Step,
            1000.0,
            "--config.num_train_steps",
        ),
        (
            "python run_mlm.py --max_steps 5000 --save_steps 500 --gradient_accumulation_steps 4 --max_train_samples 9",
            Step,
            5000.0,
            "--max_steps",
        ),
        ("python exp.py with epochs=10 seed=3 lr_steps=4", Epoch, 10.0, "epochs"),
    ] {
        check(line, unit, total, key);
    }
}

#[test]
fn numbers_with_another_meaning_are_no_claims() {
    for line in [
        "python train.py --warmup-epochs 5 --warmup_steps=100 --num_warmup_steps 10",
        "python train.py --save-every 10 --save_steps 500 --eval_steps 50 --logging_steps=10 --log-interval 3",
        "python train.py --patience 5 --early-stopping-epochs 3 --early_stopping_rounds 10",
        "python train.py --batch-size 32 --seed 7 --workers 4 --port 8080 --n_jobs 2 --num_workers=8",
        "python train.py --start-epoch 10 --resume_epoch=12 --last_epoch 3 --initial_epoch 4 --min_epochs 2",
        "python train.py --steps_per_epoch 100 --epochs-between-evals 2 --validation_steps 3 --epochs_per_save 4",
        "python train.py --decay-epochs 30 --lr_step_epochs 10 --step-size 30 --step 30 --lr_decay_iters 9",
        "python train.py --gradient_accumulation_steps 8 --max_episode_steps 500 --max_eval_steps 9",
        "python train.py --num_train_timesteps=0 --epochs 0 --max_steps -1 --n_epochs nan --iters inf",
        "python train.py --epochs --amp --max_steps many --max-epochs=",
        "python train.py scheduler.epochs=30 lr_scheduler.max_iters=5 data.num_epochs=2 early_stopping.max_epochs=9",
        "python train.py --max_train_samples 1000 --num_samples 50 --limit_train_batches 10",
        "python train.py --max_steps 10.5 --epochs 1e13",
        "tail -n 100 log",
        "bash -e 5 x",
        "nice -n 10 worker",
        "mpirun -n 4 a.out",
        "sh -c nice·-n·10·sleep·20;·echo·--epochs·5",
        "sh -c grep·epochs=5·log·|·tail·-n·20",
        "python -c if·epochs==5:·epochs+=3",
        "tensorboard --max_steps 100",
        "sleep 100",
        "",
    ] {
        let claims = of(line);
        assert!(
            claims.is_empty() || claims.iter().all(|claim| claim.confidence < MIN_CONFIDENCE),
            "{line}: {claims:?}"
        );
    }
}

#[test]
fn a_single_letter_option_or_an_unknown_section_is_a_weak_claim() {
    let claims = of("python train.py -n 100");
    assert_eq!((claims[0].unit, claims[0].total, claims[0].confidence), (None, 100.0, 0.35));
    let claims = of("python train.py hunter2.max_epochs=100");
    assert_eq!((claims[0].key.as_str(), claims[0].confidence < 0.6), ("max_epochs", true), "its section is not shown");
}

#[test]
fn upper_case_variables_have_lower_confidence_than_options() {
    let claims = of_environment(&[
        ("EPOCHS", "90"),
        ("SM_HP_MAX_STEPS", "500"),
        ("WARMUP_EPOCHS", "5"),
        ("epochs", "7"),
        ("API_KEY", "123456"),
        ("HOME_EPOCHS_SECRET", "3"),
        ("NUM_EPOCHS", "ninety"),
    ]);
    let found: Vec<_> = claims.iter().map(|claim| (claim.key.as_str(), claim.total, claim.origin)).collect();
    let environment = ClaimOrigin::Environment;
    assert_eq!(found, [("EPOCHS", 90.0, environment), ("SM_HP_MAX_STEPS", 500.0, environment)]);
    assert!(claims[0].confidence < of("train --epochs 90")[0].confidence);
}

#[test]
fn files_named_in_a_command_are_found() {
    let words = "python train.py --config conf/a.yaml --deepspeed=ds.json b.toml x.txt https://host/c.yaml a.yaml.bak";
    let words: Vec<&str> = words.split(' ').collect();
    assert_eq!(config_files(&words), ["conf/a.yaml", "ds.json", "b.toml"]);
}

#[test]
fn sections_of_files_are_read_and_those_about_something_else_are_not() {
    let json = r#"{"optimizer": {"epochs": 9}, "training": {"num_epochs": 40, "warmup_epochs": 4, "api_key": "123"},
        "stages": [{"epochs": 1}, {"epochs": 2}], "scheduler": {"params": {"total_num_steps": 1000}}, "seed": 3}"#;
    let toml =
        "seed = 3\n[training]\nnum_epochs = 40\nwarmup_epochs = 4\n[scheduler]\nmax_steps = 7\n[[stage]]\nepochs = 3\n";
    let yaml = "# epochs: 3\nseed: 3\ntraining:\n  lr: 1e-3\n  num_epochs: 40  # all\n  warmup_epochs: 4\nscheduler:\n  \
                max_epochs: 7\ncallbacks:\n- epochs: 5\n  max_epochs: 6\nnote: |\n  text\n  epochs: 8\n---\nlist: [1,\n  2]\n";
    for (path, text) in [("c.json", json), ("c.toml", toml), ("c.yaml", yaml), ("c.YML", yaml)] {
        let claims = of_config(path, text);
        let found: Vec<_> = claims.iter().map(|claim| (claim.key.as_str(), claim.total, claim.origin)).collect();
        assert_eq!(found, [("training.num_epochs", 40.0, ClaimOrigin::ConfigFile)], "{path}");
    }
    let flow = of_config("c.yaml", "trainer: {max_epochs: 5, lr: 0.1}\nhunter2: {max_steps: 9}\n\"epochs\": '6'\n");
    let found: Vec<_> = flow.iter().map(|claim| (claim.key.as_str(), claim.total)).collect();
    assert_eq!(found, [("trainer.max_epochs", 5.0), ("epochs", 6.0), ("max_steps", 9.0)]);
}

#[test]
fn a_damaged_or_hostile_file_claims_nothing() {
    let deep = format!("{}{}{}", "{\"train\":".repeat(90), "{\"epochs\": 5}", "}".repeat(90));
    for (path, text) in [
        ("c.json", "{\"epochs\": 5"),
        ("c.json", deep.as_str()),
        ("c.toml", "epochs = "),
        ("c.yaml", "\u{0}\u{1}: : :\n\t- epochs"),
        ("c.yaml", "epochs: {{{{5}}}}"),
        ("c.txt", "epochs: 5"),
        ("c.json", ""),
    ] {
        assert_eq!(of_config(path, text), [], "{path}: {text:.40}");
    }
}

#[test]
fn many_words_are_bounded() {
    let words: Vec<String> = (1..100_000).map(|n| format!("trainer.max_epochs={n}")).collect();
    assert!(of_command(&words).len() <= MAX_CLAIMS);
    let script = format!("sh -c {}", "sh·-c·'".repeat(5000));
    assert_eq!(of(&script), []);
}

fn chosen(line: &str, counted: Counted, done: f64) -> Option<(f64, f64)> {
    choose(&of(line), counted, done).map(|(claim, confidence)| (claim.total, (confidence * 1000.0).round() / 1000.0))
}

#[test]
fn a_claim_is_matched_with_the_counter_of_the_log() {
    let epochs = "python train.py --epochs 50";
    for (line, counted, done, expected) in [
        (epochs, Counted::Unit(Epoch), 0.0, Some((50.0, 0.95))),
        (epochs, Counted::Unit(Epoch), 50.0, Some((50.0, 0.95))),
        (epochs, Counted::Unit(Epoch), 50.5, None),
        (epochs, Counted::Unit(Step), 3.0, None),
        (epochs, Counted::Unit(Iteration), 3.0, None),
        (epochs, Counted::Unit(ProgressUnit::Percent), 3.0, None),
        (epochs, Counted::Evaluations, 3.0, Some((50.0, 0.38))),
        (epochs, Counted::Evaluations, 51.0, None),
        ("train --max_steps 500", Counted::Unit(Step), 3.0, Some((500.0, 0.9))),
        ("train --max_steps 500", Counted::Unit(Iteration), 3.0, Some((500.0, 0.675))),
        ("train --max_steps 500", Counted::Unit(Epoch), 3.0, None),
        ("train --max_steps 500", Counted::Evaluations, 3.0, None),
        ("train --n_estimators 400", Counted::Unit(Iteration), 3.0, Some((400.0, 0.675))),
        ("train --total_timesteps 1e6", Counted::Unit(Iteration), 3.0, None),
        ("python train.py -n 100", Counted::Unit(Epoch), 3.0, Some((100.0, 0.35))),
        ("python train.py -n 100", Counted::Unit(Sample), 3.0, None),
        // It is unknown which of the two limits ends the run.
        ("train --epochs 3 --max_steps 500", Counted::Unit(Epoch), 1.0, Some((3.0, 0.57))),
        ("train --epochs 3 --max_steps 500", Counted::Unit(Step), 1.0, Some((500.0, 0.9))),
        // Two claims differ: the surer one is used, and the other one after the job has passed it.
        ("train --n_epochs 3 --max_epochs 9", Counted::Unit(Epoch), 1.0, Some((9.0, 0.57))),
        ("train --epoch 3 --max_epochs 9", Counted::Unit(Epoch), 1.0, Some((9.0, 0.95))),
        ("train --iters 9 --max_iters 5", Counted::Unit(Iteration), 6.0, Some((9.0, 0.6))),
    ] {
        assert_eq!(chosen(line, counted, done), expected, "{line} counted in {counted:?}, at {done}");
    }
}

#[test]
fn the_command_of_a_process_takes_precedence_over_the_script_that_started_it() {
    let script = of("sh -c python·pre.py·--epochs·5;·python·train.py·--epochs·50");
    let process = of("python train.py --epochs 50");
    let claims = gathered(script.into_iter().chain(process));
    let (claim, confidence) = choose(&claims, Counted::Unit(Epoch), 1.0).expect("a claim fits");
    assert_eq!((claim.total, confidence), (50.0, 0.95));
}

#[test]
fn an_option_overrides_a_file_and_a_file_a_variable() {
    let option = of("python train.py --epochs 50");
    let file = of_config("c.yaml", "epochs: 40\n");
    let variable = of_environment(&[("EPOCHS", "30")]);
    let chosen = |claims: &[&[Claim]]| {
        let claims = gathered(claims.concat());
        choose(&claims, Counted::Unit(Epoch), 1.0)
            .map(|(claim, confidence)| (claim.total, confidence == claim.confidence))
    };
    assert_eq!(chosen(&[&variable, &file, &option]), Some((50.0, true)));
    assert_eq!(chosen(&[&variable, &file]), Some((40.0, true)));
    assert_eq!(chosen(&[&variable]), Some((30.0, true)));
}

/// Random words from many pieces of commands: parsing ends, is bounded, and shows known words only.
#[test]
fn arbitrary_words_are_parsed_safely_and_never_shown() {
    let pieces = [
        "--epochs",
        "epochs",
        "=",
        "5",
        "1e3",
        "-c",
        "sh",
        "python",
        "{",
        "}",
        "\"",
        "'",
        "\\",
        ":",
        " ",
        "\n",
        "max_steps",
        ".",
        ",",
        "--",
        "é",
        "-n",
        "secret",
        "train.py",
        "#",
        "|",
        "trainer",
        "-1",
        "(",
        "+",
        "EPOCHS",
        "&",
        "\u{0}",
        "- ",
        "|-\n",
        "epochs: 5\n",
        "n_epochs=7",
        "secret.max_epochs=9",
        " --max-iter=8 ",
        "\"epochs\": 4",
    ];
    let mut state = 7u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut claimed = 0;
    for _ in 0..5000 {
        let words: Vec<String> =
            (0..next(8)).map(|_| (0..=next(3)).map(|_| pieces[next(pieces.len())]).collect()).collect();
        let text = words.join(" ");
        let variables: Vec<(&str, &str)> = words.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
        let files = ["c.yaml", "c.json", "c.toml"].map(|path| of_config(path, &text)).concat();
        let all = [of_command(&words), of_environment(&variables), files].concat();
        claimed += all.len();
        for claim in all {
            let known = claim.confidence <= 1.0 && number::sound(claim.total).is_some();
            assert!(known && !claim.key.contains("secret") && claim.key.len() <= 64, "{words:?}: {claim:?}");
        }
    }
    assert!(claimed > 500, "too few of the words make a claim: {claimed}");
}
