"""Two losses of one forward pass, with an optimizer step between their backward passes."""

import tapegrad as torch

torch.manual_seed(0)
body = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4))
policy, value = torch.nn.Linear(4, 2), torch.nn.Linear(4, 1)
layers = torch.nn.ModuleList([body, policy, value])
optimizer = torch.optim.Adam(layers.parameters(), lr=0.01)
h = body(torch.randn(6, 3))  #: saved
policy_loss = policy(h).pow(2).mean()
value_loss = value(h).pow(2).mean()
optimizer.zero_grad()
policy_loss.backward(retain_graph=True)
optimizer.step()  #: written
optimizer.zero_grad()
value_loss.backward()  #: noticed
