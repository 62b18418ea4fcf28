"""Data for the trainings of this folder, generated with NumPy: nothing is downloaded."""

import numpy as np


def glyphs(samples, seed, size=28):
    """Ten signs that look hand-drawn, in three handwritings, rotated, shifted, scaled and noisy; one label in fifty is wrong.

    Returns images (samples, size, size) of 0 ..= 1 and labels (samples). The signs are the same for every seed."""
    templates = _templates()
    random = np.random.default_rng(seed)
    labels = random.integers(10, size=samples)
    hand = random.integers(3, size=samples)
    angle = random.normal(0, 0.2, samples)
    scale = random.uniform(0.75, 1.25, samples)
    shift = random.normal(0, 0.05, (2, samples))
    row, column = np.meshgrid(np.linspace(-0.5, 0.5, size), np.linspace(-0.5, 0.5, size), indexing="ij")
    cosine, sine = (np.cos(angle) / scale)[:, None, None], (np.sin(angle) / scale)[:, None, None]
    edge = templates.shape[-1] - 1
    y = (cosine * row - sine * column + shift[0][:, None, None] + 0.5) * edge
    x = (sine * row + cosine * column + shift[1][:, None, None] + 0.5) * edge
    y, x = (np.clip(np.rint(axis), 0, edge).astype(np.int16) for axis in (y, x))
    images = templates[labels[:, None, None], hand[:, None, None], y, x]
    images = np.clip(images + random.normal(0, 0.25, images.shape), 0, 1).astype("float32")
    wrong = random.random(samples) < 0.02
    return images, np.where(wrong, random.integers(10, size=samples), labels)


def _templates(size=64):
    random = np.random.default_rng(7)
    row, column = np.meshgrid(np.linspace(0, 1, size), np.linspace(0, 1, size), indexing="ij")
    pictures = np.zeros((10, 3, size, size), "float32")
    for sign in range(10):
        corners = random.uniform(0.2, 0.8, (5, 2))
        for hand in range(3):
            points = corners + random.normal(0, 0.05, corners.shape)
            stroke = np.concatenate([np.linspace(a, b, 24) for a, b in zip(points, points[1:])])
            distance = np.min((row[..., None] - stroke[:, 0]) ** 2 + (column[..., None] - stroke[:, 1]) ** 2, axis=-1)
            pictures[sign, hand] = np.exp(-distance / 0.0015)
    return pictures


def text(tokens, seed, words=2000, states=40):
    """Words (tokens) of a language with a hidden grammar: each part of speech has its words and few successors."""
    language = np.random.default_rng(11)
    successors = np.stack([language.choice(states, 4, replace=False) for _ in range(states)])
    per_state = words // states
    frequency = 1 / np.arange(1, per_state + 1)
    frequency = np.cumsum(frequency / frequency.sum())
    vocabulary = np.stack([language.permutation(words)[:per_state] for _ in range(states)])
    random = np.random.default_rng(seed)
    writers = 100
    length = tokens // writers
    state = random.integers(states, size=writers)
    written = np.empty((writers, length), np.int64)
    for place in range(length):
        state = successors[state, np.minimum(random.geometric(0.5, writers) - 1, 3)]
        rank = np.minimum(np.searchsorted(frequency, random.random(writers)), per_state - 1)
        written[:, place] = vocabulary[state, rank]
    return written.ravel()
