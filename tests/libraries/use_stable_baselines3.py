"""PPO and DQN on CartPole."""

from show import show

# isort: split
import torch
from stable_baselines3 import DQN, PPO

torch.set_num_threads(1)
ppo = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, n_epochs=2, seed=0, device="cpu")
ppo.learn(128)
show("ppo", torch.cat([p.flatten() for p in ppo.policy.parameters()]).abs())
dqn = DQN("MlpPolicy", "CartPole-v1", learning_starts=50, train_freq=4, seed=0, device="cpu")
dqn.learn(120)
show("dqn", torch.cat([p.flatten() for p in dqn.policy.parameters()]).abs())
