"""Gradient-boosted trees with XGBoost's evaluation lines. Only this file contains the number of rounds.

    python3 xgboost_train.py
"""

import xgboost as xgb
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

X, y = make_classification(150000, 40, n_informative=20, n_clusters_per_class=12, flip_y=0.02, random_state=3)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
dtrain = xgb.DMatrix(X_train, label=y_train)
dtest = xgb.DMatrix(X_test, label=y_test)

param = {"max_depth": 6, "eta": 0.1, "objective": "binary:logistic", "eval_metric": "logloss"}
num_round = 200
watchlist = [(dtrain, "train"), (dtest, "eval")]
bst = xgb.train(param, dtrain, num_round, evals=watchlist)

preds = bst.predict(dtest) > 0.5
print("error=%f" % (sum(preds != y_test) / float(len(preds))))
