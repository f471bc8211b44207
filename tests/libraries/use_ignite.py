"""An engine with metrics."""

from show import show

# isort: split
import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy, Loss

torch.manual_seed(0)
x = torch.randn(64, 4)
data = torch.utils.data.TensorDataset(x, (x.sum(1) > 0).long())
loader = torch.utils.data.DataLoader(data, batch_size=16)
model = torch.nn.Linear(4, 2)
loss = torch.nn.CrossEntropyLoss()
trainer = create_supervised_trainer(model, torch.optim.SGD(model.parameters(), 0.1), loss)
evaluator = create_supervised_evaluator(model, {"accuracy": Accuracy(), "loss": Loss(loss)})


@trainer.on(Events.EPOCH_COMPLETED)
def evaluate(engine):
    evaluator.run(loader)
    show("metrics", {k: round(v, 4) for k, v in evaluator.state.metrics.items()})


trainer.run(loader, max_epochs=2)
