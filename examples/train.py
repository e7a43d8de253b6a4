"""Trains a small volumetric decoder with PyTorch's ConvTranspose3d, then with tconv3d's, from the same start."""

from __future__ import annotations

import copy
import time

import torch
from torch import nn

import tconv3d

STEPS = 40
EDGE = 32


def decoder() -> nn.Module:
    """4³ coarse voxels to one 32³ volume, in three upsampling steps as in 3D-GAN."""
    return nn.Sequential(
        nn.ConvTranspose3d(8, 64, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.ConvTranspose3d(64, 32, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.ConvTranspose3d(32, 1, 4, stride=2, padding=1),
    )


def blobs(count: int) -> torch.Tensor:
    """Volumes with one Gaussian blob each, at a random place."""
    axis = torch.linspace(-1, 1, EDGE)
    grid = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"))
    centre = torch.rand(count, 3, 1, 1, 1) - 0.5
    return torch.exp(-8 * (grid - centre).square().sum(1, keepdim=True))


def coarse(volume: torch.Tensor) -> torch.Tensor:
    """The 2×2×2 averages of each 8×8×8 block, as 8 channels."""
    averages = nn.functional.avg_pool3d(volume, 4)
    blocks = averages.unfold(2, 2, 2).unfold(3, 2, 2).unfold(4, 2, 2)
    return blocks.reshape(*blocks.shape[:1], 4, 4, 4, 8).movedim(-1, 1).contiguous()


def train(model: nn.Module) -> tuple[list[float], float]:
    """The losses of all steps, and the seconds they took."""
    torch.manual_seed(1)
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    losses = []
    start = time.perf_counter()
    for _ in range(STEPS):
        volume = blobs(4)
        loss = nn.functional.mse_loss(model(coarse(volume)), volume)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses, time.perf_counter() - start


def main() -> None:
    torch.manual_seed(0)
    model = decoder()
    accelerated = tconv3d.accelerate(copy.deepcopy(model), verbose=True)
    for name, candidate in (("torch", model), ("tconv3d", accelerated)):
        losses, seconds = train(candidate)
        print(f"{name:8} loss {losses[0]:.5f} -> {losses[-1]:.5f} in {seconds:.2f} s")


if __name__ == "__main__":
    main()
