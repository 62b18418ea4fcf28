"""A linear classifier on scikit-learn's digits in a random feature space, trained in pieces with `partial_fit`, which uses one thread.
The number of passes is in the environment.

    EPOCHS=100 SEED=1 python3 sklearn_partial_fit.py
"""

import os

import numpy as np
from scipy.ndimage import shift
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.utils import gen_batches, shuffle

epochs = int(os.environ.get("EPOCHS", "100"))
seed = int(os.environ.get("SEED", "1"))

images, labels = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(images / 16.0, labels, test_size=0.25, random_state=0)
moves = [(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)]
X_train = np.concatenate([shift(X_train.reshape(-1, 8, 8), (0, *move)).reshape(-1, 64) for move in moves])
X_train += np.random.default_rng(0).normal(0, 0.1, X_train.shape)
y_train = np.tile(y_train, len(moves))
features = RBFSampler(gamma=0.05, n_components=800, random_state=0).fit(X_train)
X_train, X_test = features.transform(X_train), features.transform(X_test)
classes = np.unique(y_train)

classifier = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.02, alpha=1e-6, random_state=seed)
for epoch in range(epochs):
    X_train, y_train = shuffle(X_train, y_train, random_state=seed + epoch)
    for batch in gen_batches(len(X_train), 500):
        classifier.partial_fit(X_train[batch], y_train[batch], classes=classes)
    loss = log_loss(y_test, classifier.predict_proba(X_test))
    accuracy = classifier.score(X_test, y_test)
    print(f"epoch {epoch + 1}: test loss {loss:.4f}, test accuracy {accuracy:.3f}")
