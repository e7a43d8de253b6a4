"""Trains a small volumetric decoder with PyTorch's ConvTranspose3d, then with tconv3d's, from the same start."""

from __future__ import annotations

import argparse
import copy
import statistics

import torch
from torch import nn

import tconv3d
from share import milliseconds, share_of_transposed

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


def train(model: nn.Module, device: str, steps: int) -> tuple[list[float], list[float]]:
    """The loss and the milliseconds of each step, on the same data for every model."""
    torch.manual_seed(1)
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    losses: list[torch.Tensor] = []
    times = []
    for _ in range(steps):
        volume = blobs(4)
        given, wanted = coarse(volume).to(device), volume.to(device)

        def step(given: torch.Tensor = given, wanted: torch.Tensor = wanted) -> None:
            loss = nn.functional.mse_loss(model(given), wanted)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.detach())

        times.append(milliseconds(step, device))
    return [loss.item() for loss in losses], times


def compare(device: str, steps: int) -> float:
    """Trains before and after `accelerate`; the largest difference of the losses, relative to the first loss."""
    torch.manual_seed(0)
    models = {"PyTorch": decoder().to(device)}
    models["tconv3d"] = tconv3d.accelerate(copy.deepcopy(models["PyTorch"]))
    share = share_of_transposed(models["PyTorch"], coarse(blobs(4)).to(device), device)
    curves = {}
    for name, model in models.items():
        curves[name], times = train(model, device, steps)
        # The first steps compile kernels and fill caches.
        print(
            f"{name:8} loss {curves[name][0]:.5f} -> {curves[name][-1]:.5f}, "
            f"{statistics.median(times[steps // 4 :]):.2f} ms a step"
        )
    difference = max(abs(ours - theirs) for ours, theirs in zip(*curves.values())) / curves["PyTorch"][0]
    print(f"the losses differ by at most {difference:.1e} of the first one")
    print(f"transposed convolutions took {share:.0%} of its inference before")
    return difference


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    compare(options.device, options.steps)


if __name__ == "__main__":
    main()
