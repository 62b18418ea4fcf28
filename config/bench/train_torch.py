"""Trainings with PyTorch on generated data, for `flowctl bench`: one line per epoch, nothing is downloaded.

    python3 train_torch.py vae|cnn|lstm --epochs 300 [--samples 2048] [--threads 1] [--seed 1]
"""

import argparse
import os
import sys

# PyTorch's libraries read these variables when they are loaded; without them they use all cores.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = sys.argv[sys.argv.index("--threads") + 1] if "--threads" in sys.argv else "1"

import torch
from torch import nn
from torch.nn import functional as F


def images(samples):
    """Noisy images (28 x 28) of ten smooth shapes, and their labels; one label in twenty is wrong."""
    coarse = torch.rand(10, 1, 7, 7)
    shapes = F.interpolate(coarse, size=28, mode="bilinear", align_corners=False)
    labels = torch.randint(10, (samples,))
    pictures = (shapes[labels] + 0.25 * torch.randn(samples, 1, 28, 28)).clamp(0, 1)
    wrong = torch.rand(samples) < 0.05
    return pictures, torch.where(wrong, torch.randint(10, (samples,)), labels)


def waves(samples, steps=48):
    """Noisy sums of two sines with random frequency and phase, and the next value of each."""
    time = torch.arange(steps + 1) / steps
    pitch = 2 + 6 * torch.rand(samples, 2, 1)
    phase = 6.28 * torch.rand(samples, 2, 1)
    wave = torch.sin(6.28 * pitch * time + phase).mean(1) + 0.05 * torch.randn(samples, steps + 1)
    return wave[:, :-1, None], wave[:, 1:, None]


class Vae(nn.Module):
    """A variational auto-encoder, 784 - 256 - 16 - 256 - 784, as in the examples of the frameworks."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU())
        self.mean, self.spread = nn.Linear(256, 16), nn.Linear(256, 16)
        self.decode = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 784))

    def loss(self, pictures, _):
        hidden = self.encode(pictures)
        mean, spread = self.mean(hidden), self.spread(hidden)
        code = mean + torch.randn_like(mean) * torch.exp(0.5 * spread)
        rebuilt = F.binary_cross_entropy_with_logits(self.decode(code), pictures.flatten(1), reduction="sum")
        divergence = -0.5 * torch.sum(1 + spread - mean.pow(2) - spread.exp())
        return (rebuilt + divergence) / len(pictures)


class Cnn(nn.Module):
    """Two convolutions and two dense layers: the classifier of the MNIST examples."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(400, 64), nn.ReLU(), nn.Linear(64, 10))

    def loss(self, pictures, labels):
        return F.cross_entropy(self.body(pictures), labels)


class Lstm(nn.Module):
    """One LSTM layer of 64 units that predicts the next value."""

    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(1, 64, batch_first=True), nn.Linear(64, 1)

    def loss(self, past, future):
        return F.mse_loss(self.out(self.lstm(past)[0]), future)


MODELS = {"vae": (Vae, images, 1e-4), "cnn": (Cnn, images, 1e-4), "lstm": (Lstm, waves, 5e-4)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    network, data, rate = MODELS[args.model]
    model, (inputs, targets) = network(), data(args.samples)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for epoch in range(1, args.epochs + 1):
        total = 0.0
        for batch in torch.randperm(args.samples).split(128):
            optimizer.zero_grad()
            loss = model.loss(inputs[batch], targets[batch])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        print(f"Epoch [{epoch}/{args.epochs}] loss: {total / args.samples:.5f}", flush=True)


if __name__ == "__main__":
    main()
