"""A classifier in scikit-learn's manner."""

from show import show

# isort: split
import numpy as np
import torch
from skorch import NeuralNetClassifier
from skorch.helper import predefined_split  # noqa: F401


class Net(torch.nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(10, width), torch.nn.ReLU(), torch.nn.Linear(width, 2)
        )

    def forward(self, x):
        return self.layers(x).softmax(-1)


torch.manual_seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(100, 10)).astype("float32")
y = (x[:, 0] > 0).astype("int64")
net = NeuralNetClassifier(Net, max_epochs=4, lr=0.1, iterator_train__shuffle=True, verbose=0)
net.fit(x, y)
for row in net.history:
    show("loss", float(row["train_loss"]))
    show("valid", float(row["valid_loss"]))
show("probabilities", torch.tensor(net.predict_proba(x[:5])))
