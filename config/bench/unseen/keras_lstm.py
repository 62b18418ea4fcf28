"""A classifier of word sequences in the style of Keras's bidirectional LSTM example: `fit` with arrays, `verbose=2`, one line per epoch.

    python3 keras_lstm.py [--epochs 10] [--seed 1]
"""

import argparse

import keras
import numpy as np
from keras import layers

from synthetic import text

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)

max_features = 500
maxlen = 32


def reviews(samples, seed):
    """Texts and whether they are positive: some words are positive, as many are negative, and a negation inverts the next
    three words. One label in twenty-five is wrong."""
    meaning = np.random.default_rng(33).choice([-1, 0, 0, 0, 1], max_features)
    negations = np.random.default_rng(34).choice(max_features, max_features // 20, replace=False)
    random = np.random.default_rng(seed)
    words = text(samples * maxlen, seed, max_features).reshape(samples, maxlen)
    said = np.isin(words, negations)
    turned = np.zeros_like(said)
    for distance in (1, 2, 3):
        turned[:, distance:] |= said[:, :-distance]
    favour = (meaning[words] * np.where(turned, -1, 1)).sum(axis=1) + random.normal(0, 0.1, samples)
    wrong = random.random(samples) < 0.04
    return words, ((favour > 0) ^ wrong).astype("int64")


x_train, y_train = reviews(12000, 31)
x_val, y_val = reviews(2000, 32)
print(len(x_train), "Training sequences")
print(len(x_val), "Validation sequences")

inputs = keras.Input(shape=(None,), dtype="int32")
x = layers.Embedding(max_features, 32)(inputs)
x = layers.Bidirectional(layers.LSTM(32, return_sequences=True))(x)
x = layers.Bidirectional(layers.LSTM(32))(x)
x = layers.Dropout(0.3)(x)
outputs = layers.Dense(1, activation="sigmoid")(x)
model = keras.Model(inputs, outputs)
model.summary()
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=128, epochs=args.epochs, validation_data=(x_val, y_val), verbose=2)
