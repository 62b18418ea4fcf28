"""A real training with one library and its default number of threads; about three seconds alone on two cores.

    python3 train.py lightgbm|xgboost|histgb|mlp|numpy|statsmodels|torch|tensorflow

It prints what each library prints by default, or a line per step.
"""

import sys


def data(rows=60000, columns=30):
    from sklearn.datasets import make_classification

    return make_classification(rows, columns, n_informative=18, n_clusters_per_class=8, flip_y=0.02, random_state=5)


def lightgbm():
    import lightgbm as lgb

    X, y = data()
    train, held_out = lgb.Dataset(X[:50000], y[:50000]), lgb.Dataset(X[50000:], y[50000:])
    lgb.train({"objective": "binary", "num_leaves": 31, "verbose": -1}, train, 250, [held_out],
              callbacks=[lgb.log_evaluation(10)])


def xgboost():
    import xgboost as xgb

    X, y = data()
    train, held_out = xgb.DMatrix(X[:50000], y[:50000]), xgb.DMatrix(X[50000:], y[50000:])
    xgb.train({"max_depth": 6, "eta": 0.1, "objective": "binary:logistic", "eval_metric": "logloss"}, train, 150,
              evals=[(held_out, "eval")], verbose_eval=5)


def histgb():
    from sklearn.ensemble import HistGradientBoostingClassifier

    X, y = data()
    HistGradientBoostingClassifier(max_iter=120, early_stopping=False, verbose=1).fit(X, y)


def mlp():
    from sklearn.neural_network import MLPClassifier

    X, y = data(20000, 40)
    MLPClassifier((256, 256), batch_size=500, max_iter=12, tol=0, n_iter_no_change=1000, random_state=1, verbose=True).fit(X, y)


def numpy():
    import numpy as np

    # Logistic regression by full gradients, as in many courses.
    X, y = data(40000, 60)
    X = np.hstack([X] * 8)
    X -= X.mean(0)
    X /= X.std(0) * 8
    weights = np.zeros(X.shape[1])
    for step in range(150):
        p = 1 / (1 + np.exp(-(X @ weights)))
        weights -= 4.0 * (X.T @ (p - y)) / len(y)
        loss = -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean()
        print(f"step {step + 1}/150 loss {loss:.5f}", flush=True)


def statsmodels():
    import numpy as np
    import statsmodels.api as sm

    X, y = data(30000, 60)
    for fold in range(6):
        keep = np.arange(len(y)) % 6 != fold
        fit = sm.Logit(y[keep], sm.add_constant(X[keep])).fit(disp=False)
        print(f"fold {fold + 1}/6 log-likelihood {fit.llf:.3f}", flush=True)


def torch():
    import torch
    from torch import nn

    X, y = (torch.tensor(part) for part in data(20000, 40))
    X, y = X.float(), y.long()
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(40, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(10):
        for start in range(0, len(y), 100):
            loss = nn.functional.cross_entropy(model(X[start:start + 100]), y[start:start + 100])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}/10 loss {loss.item():.4f}", flush=True)


def tensorflow():
    import keras

    X, y = data(20000, 40)
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(256, "relu"), keras.layers.Dense(256, "relu"), keras.layers.Dense(2, "softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy")
    model.fit(X, y, batch_size=100, epochs=8, verbose=2)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
