"""One trial of a sweep: a small network on one thread, whose parameters are arguments. About ten CPU-seconds with forty epochs.

    python3 train.py --library sklearn|torch [--lr X] [--hidden N] [--batch N] [--decay X] [--drop EPOCH] [--seed N] [--epochs N] [--rows N]
                     [--noise X] [--nan EPOCH] [--hang EPOCH]

It prints a line per epoch, with the losses on its training and validation data. `--drop` divides the learning rate by ten after EPOCH.
What can go wrong with one (../broken.toml): after the EPOCH of `--nan` its weights are not numbers, after that of `--hang` it waits for a
minute and a half; with few rows and `--noise 0` it overfits.

The seed decides weights and order; data and validation data are the same for all trials.
"""

import argparse
import time
import warnings

import numpy as np

HANGS_S = 90


def data(rows):
    """Inputs and classes that another network of random weights gave, with some wrong ones; a fifth is for validation."""
    random = np.random.default_rng(0)
    inputs = random.normal(size=(rows, 24)).astype(np.float32)
    hidden = np.tanh(inputs @ random.normal(size=(24, 20)) * 0.2)
    target = (np.tanh(hidden @ random.normal(size=(20, 20))) @ random.normal(size=(20, 6))).argmax(1)
    wrong = random.random(rows) < 0.05
    target[wrong] = random.integers(6, size=wrong.sum())
    held = rows // 5
    return inputs[held:], target[held:], inputs[:held], target[:held]


def log_loss(probabilities, target):
    return float(-np.log(np.clip(probabilities[np.arange(len(target)), target], 1e-7, 1.0)).mean())


def sklearn(options, train_x, train_y, val_x, val_y):
    from sklearn.neural_network import MLPClassifier

    model = MLPClassifier((options.hidden, options.hidden), solver="sgd", alpha=options.decay, batch_size=options.batch,
                          learning_rate_init=options.lr, random_state=options.seed)
    random = np.random.default_rng(options.seed)
    for epoch in range(options.epochs):
        if epoch == options.drop:
            model._optimizer.learning_rate /= 10
        order = random.permutation(len(train_y))
        noise = random.normal(0, options.noise, train_x.shape).astype(np.float32)
        model.partial_fit(train_x[order] + noise, train_y[order], classes=range(6))
        yield model.loss_, log_loss(model.predict_proba(val_x), val_y)


def torch(options, train_x, train_y, val_x, val_y):
    import torch
    from torch import nn

    torch.manual_seed(options.seed)
    train_x, train_y, val_x, val_y = (torch.from_numpy(part) for part in (train_x, train_y, val_x, val_y))
    model = nn.Sequential(nn.Linear(24, options.hidden), nn.ReLU(), nn.Linear(options.hidden, options.hidden), nn.ReLU(),
                          nn.Linear(options.hidden, 6))
    optimizer = torch.optim.SGD(model.parameters(), options.lr, momentum=0.9, weight_decay=options.decay)
    loss_of = nn.CrossEntropyLoss()
    for epoch in range(options.epochs):
        if epoch == options.drop:
            optimizer.param_groups[0]["lr"] /= 10
        if epoch == options.nan:
            nn.init.constant_(model[0].weight, float("nan"))
        total = 0.0
        for batch in torch.randperm(len(train_y)).split(options.batch):
            optimizer.zero_grad()
            inputs = train_x[batch]
            loss = loss_of(model(inputs + options.noise * torch.randn_like(inputs)), train_y[batch])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        with torch.no_grad():
            yield total / len(train_y), loss_of(model(val_x), val_y).item()


def options_of(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", choices=["sklearn", "torch"], required=True)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--decay", type=float, default=1e-4)
    parser.add_argument("--drop", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--rows", type=int, default=30000)
    # Augmentation of the training data, so that a good trial does not overfit soon.
    parser.add_argument("--noise", type=float, default=0.3)
    parser.add_argument("--nan", type=int)
    parser.add_argument("--hang", type=int)
    return parser.parse_args(arguments)


def trial(options):
    """The training: yields the losses of each epoch."""
    warnings.simplefilter("ignore")  # a learning rate that is too large overflows
    return globals()[options.library](options, *data(options.rows))


if __name__ == "__main__":
    options = options_of()
    for epoch, (train_loss, val_loss) in enumerate(trial(options)):
        if epoch == options.hang:
            time.sleep(HANGS_S)
        print(f"epoch {epoch + 1}/{options.epochs} train_loss {train_loss:.4f} val_loss {val_loss:.4f}", flush=True)
