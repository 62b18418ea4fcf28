"""Gradient-boosted trees with LightGBM's evaluation lines. The number of rounds is in the configuration file that the command
names.

    python3 lightgbm_train.py --config lightgbm_train.yaml
"""

import argparse

import lightgbm as lgb
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split


def read(path):
    """Parses `key: value` lines, the only YAML needed here."""
    values = {}
    with open(path) as file:
        for line in file:
            key, separator, value = line.split("#")[0].partition(":")
            if separator:
                values[key.strip()] = value.strip()
    return values


parser = argparse.ArgumentParser()
parser.add_argument("--config", required=True)
params = read(parser.parse_args().config)
num_boost_round = int(params.pop("num_boost_round"))

print("Loading data...")
X, y = make_classification(100000, 30, n_informative=18, n_classes=2, n_clusters_per_class=12, flip_y=0.02, random_state=5)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
lgb_train = lgb.Dataset(X_train, y_train)
lgb_eval = lgb.Dataset(X_test, y_test, reference=lgb_train)

print("Starting training...")
gbm = lgb.train(
    params, lgb_train, num_boost_round=num_boost_round, valid_sets=lgb_eval, callbacks=[lgb.log_evaluation(10)])
error = ((gbm.predict(X_test) > 0.5) != y_test).mean()
print(f"The error of prediction is: {error:.4f}")
