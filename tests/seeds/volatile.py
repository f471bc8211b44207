# ruff: noqa
# A spelling of the seeds' day: volatile=True asked for no history; the name outlived the meaning.
import torch
from torch.autograd import Variable

x = Variable(torch.Tensor([1.0, 2.0]), volatile=True)
print(x)
print(x.requires_grad)
