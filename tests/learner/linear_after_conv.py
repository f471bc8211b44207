"""A small convolutional network; the first linear layer has the wrong number of inputs."""

import tapegrad as torch
from tapegrad import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 5)
        self.pool = nn.MaxPool2d(2)
        self.fc1 = nn.Linear(6 * 10 * 10, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = self.pool(torch.relu(self.conv(x)))
        x = torch.flatten(x, 1)  #: made
        x = torch.relu(self.fc1(x))  #: noticed
        return self.fc2(x)


net = Net()
net(torch.randn(2, 1, 28, 28))
