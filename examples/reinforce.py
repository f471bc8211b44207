"""REINFORCE: a network learns to balance a pole on a cart by trial and error.

No gradient flows through the cart. The policy gives a probability for each push, a push is drawn,
and the log-probability of what was drawn is raised where the pole then stood longer than usual.
Sixteen carts learn at once; a pole that falls is out until the next round.
"""

import torch
from torch import nn
from torch.distributions import Categorical

from progress import Progress, arguments

CARTS, LONGEST, DISCOUNT = 16, 200, 0.98


class CartPoles:
    """Many carts at once. State: position, velocity, angle of the pole, angular velocity.

    In double precision: a pole that is about to fall magnifies every rounding error.
    """

    GRAVITY, CART, POLE, LENGTH, PUSH, TIME = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02

    def __init__(self, carts):
        self.state = torch.empty(carts, 4, dtype=torch.float64).uniform_(-0.05, 0.05)
        self.standing = torch.ones(carts, dtype=torch.bool)

    def push(self, right):
        """Push every cart to the left (0) or to the right (1) for a fiftieth of a second."""
        x, speed, angle, turning = self.state.unbind(1)
        mass = self.CART + self.POLE
        force = self.PUSH * (2.0 * right - 1)
        sin, cos = angle.sin(), angle.cos()
        pull = (force + self.POLE * self.LENGTH * turning**2 * sin) / mass
        inertia = self.LENGTH * (4 / 3 - self.POLE * cos**2 / mass)
        falling = (self.GRAVITY * sin - cos * pull) / inertia
        moving = pull - self.POLE * self.LENGTH * falling * cos / mass
        change = torch.stack([speed, moving, turning, falling], dim=1)
        self.state = self.state + self.TIME * change
        # Twelve degrees, or the end of the track.
        self.standing &= (self.state[:, 2].abs() < 0.2095) & (self.state[:, 0].abs() < 2.4)


def play(policy):
    """One round: the log-probability of every push, and which poles stood when it was made."""
    carts = CartPoles(CARTS)
    log_probs, standing = [], []
    while carts.standing.any() and len(log_probs) < LONGEST:
        choice = Categorical(logits=policy(carts.state.float()))
        pushes = choice.sample()
        log_probs.append(choice.log_prob(pushes))
        standing.append(carts.standing.clone())
        carts.push(pushes)
    return torch.stack(log_probs), torch.stack(standing)


def returns(standing):
    """What each push led to: one point for every moment the pole still stands, discounted."""
    found, later = [], torch.zeros(CARTS)
    for now in standing.float().flip(0):
        later = now * (1 + DISCOUNT * later)
        found.append(later)
    return torch.stack(found).flip(0)


args = arguments(__doc__, steps=50)
torch.manual_seed(args.seed)

policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)

progress = Progress(args)
for _ in progress:
    log_probs, standing = play(policy)
    points = returns(standing)[standing]
    advantage = (points - points.mean()) / (points.std() + 1e-8)
    loss = -(log_probs[standing] * advantage).mean()

    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    progress.log(loss.item(), balanced=standing.sum().item() / CARTS)

recent = progress.curves["balanced"][-10:]
first = progress.curves["balanced"][0]
print(f"balanced for {first:.0f} moments at first, {sum(recent) / len(recent):.0f} at the end")
