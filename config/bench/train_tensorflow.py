"""Trainings with TensorFlow and Keras on generated data, for `flowctl bench`: Keras's log lines, nothing is downloaded.

    python3 train_tensorflow.py vae|cnn|gru|birnn --epochs 300 [--samples 2048] [--threads 1] [--seed 1]
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers


def images(samples, random):
    """Noisy images (28 x 28) of ten smooth shapes, and their labels; one label in twenty is wrong."""
    coarse = random.random((10, 7, 7))
    shapes = np.kron(coarse, np.ones((4, 4)))
    labels = random.integers(10, size=samples)
    pictures = np.clip(shapes[labels] + 0.25 * random.standard_normal((samples, 28, 28)), 0, 1)
    wrong = random.random(samples) < 0.05
    labels = np.where(wrong, random.integers(10, size=samples), labels)
    return pictures[..., None].astype("float32"), labels


def waves(samples, random, steps=48):
    """Noisy sums of two sines with random frequency and phase, and the next value of each."""
    time = np.arange(steps + 1) / steps
    pitch = 2 + 6 * random.random((samples, 2, 1))
    phase = 6.28 * random.random((samples, 2, 1))
    wave = np.sin(6.28 * pitch * time + phase).mean(1) + 0.05 * random.standard_normal((samples, steps + 1))
    return wave[:, :-1, None].astype("float32"), wave[:, 1:, None].astype("float32")


def echoes(samples, random, steps=24, letters=12):
    """Letters, and for each whether it occurs both before and after its position: the model must read both directions."""
    text = random.integers(letters, size=(samples, steps))
    same = text[:, :, None] == text[:, None, :]
    order = np.arange(steps)
    before = (same & (order[None, :] < order[:, None])).any(2)
    after = (same & (order[None, :] > order[:, None])).any(2)
    return text, (before & after).astype("float32")[..., None]


class Vae(keras.Model):
    """A variational auto-encoder, 784 - 256 - 16 - 256 - 784, as in the examples of the frameworks."""

    def __init__(self):
        super().__init__()
        self.hidden = keras.Sequential([layers.Flatten(), layers.Dense(256, activation="relu")])
        self.mean, self.spread = layers.Dense(16), layers.Dense(16)
        self.back = keras.Sequential([layers.Dense(256, activation="relu"), layers.Dense(784)])

    def call(self, pictures):
        hidden = self.hidden(pictures)
        mean, spread = self.mean(hidden), self.spread(hidden)
        code = mean + tf.random.normal(tf.shape(mean)) * tf.exp(0.5 * spread)
        divergence = -0.5 * tf.reduce_sum(1 + spread - mean**2 - tf.exp(spread), axis=1)
        self.add_loss(tf.reduce_mean(divergence))
        return self.back(code)


def rebuilt(pictures, logits):
    flat = tf.reshape(pictures, (-1, 784))
    return tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=flat, logits=logits), axis=1)


def vae(samples, random):
    pictures, _ = images(samples, random)
    model = Vae()
    model.compile(optimizer=keras.optimizers.Adam(1e-4), loss=rebuilt)
    return model, pictures, pictures


def cnn(samples, random):
    model = keras.Sequential([
        layers.Conv2D(8, 3, activation="relu"), layers.MaxPooling2D(), layers.Conv2D(16, 3, activation="relu"),
        layers.MaxPooling2D(), layers.Flatten(), layers.Dense(64, activation="relu"), layers.Dense(10)])
    model.compile(optimizer=keras.optimizers.Adam(1e-4), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model, *images(samples, random)


def gru(samples, random):
    model = keras.Sequential([layers.GRU(48, return_sequences=True), layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.Adam(5e-4), loss="mse")
    return model, *waves(samples, random)


def birnn(samples, random):
    model = keras.Sequential([
        layers.Embedding(12, 16), layers.Bidirectional(layers.LSTM(32, return_sequences=True)),
        layers.Dense(1, activation="sigmoid")])
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="binary_crossentropy")
    return model, *echoes(samples, random)


MODELS = {"vae": vae, "cnn": cnn, "gru": gru, "birnn": birnn}


def reading_with(threads):
    """Options that limit the data pipeline to `threads`; the one that `fit` builds from arrays uses threads on all cores."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = threads
    return options


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    keras.utils.set_random_seed(args.seed)
    model, *data = MODELS[args.model](args.samples, np.random.default_rng(args.seed))
    batches = tf.data.Dataset.from_tensor_slices(tuple(data)).shuffle(args.samples, args.seed).batch(128)
    model.fit(batches.with_options(reading_with(args.threads)), shuffle=False, epochs=args.epochs, verbose=2)


if __name__ == "__main__":
    main()
