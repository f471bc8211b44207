"""A LightningModule, trained and tested."""

from show import show

# isort: split
import logging

import lightning
import torch

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
logging.getLogger("lightning.fabric").setLevel(logging.ERROR)


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
        )

    def training_step(self, batch, index):
        loss = torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def test_step(self, batch, index):
        self.log("test", torch.nn.functional.l1_loss(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


lightning.seed_everything(0, verbose=False)
x = torch.randn(64, 4)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
model = Model()
trainer = lightning.Trainer(
    max_epochs=3,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    gradient_clip_val=1.0,
)
trainer.fit(model, loader)
show("loss", trainer.callback_metrics["loss"])
test = torch.utils.data.DataLoader(data, batch_size=16)
show("test", trainer.test(model, test, verbose=False)[0]["test"])
show("weights", model.net[0].weight)
