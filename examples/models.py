"""Two networks of the kinds that use 3D transposed convolutions, in plain PyTorch, small enough to read."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class UNet(nn.Module):
    """A 3D U-Net as nnU-Net plans it: two convolutions a stage, downsampling by stride, upsampling by k2 s2."""

    def __init__(
        self, in_channels: int = 1, classes: int = 3, features: Sequence[int] = (32, 64, 128, 256, 320)
    ) -> None:
        super().__init__()
        inputs = [in_channels, *features[:-1]]
        strides = [1] + [2] * (len(features) - 1)
        self.encoder = nn.ModuleList(_stage(*sizes) for sizes in zip(inputs, features, strides))
        upwards = list(zip(features[:0:-1], features[-2::-1]))
        self.up = nn.ModuleList(nn.ConvTranspose3d(below, above, 2, stride=2) for below, above in upwards)
        self.decoder = nn.ModuleList(_stage(2 * above, above, 1) for _, above in upwards)
        self.head = nn.Conv3d(features[0], classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, D, H, W) to one map for each class."""
        skips = []
        for stage in self.encoder:
            x = stage(x)
            skips.append(x)
        for up, stage, skip in zip(self.up, self.decoder, reversed(skips[:-1])):
            x = stage(torch.cat((up(x), skip), dim=1))
        return self.head(x)


class Generator(nn.Module):
    """The generator of 3D-GAN: a vector to a volume of 64³, in transposed convolutions of k4 s2 p1 alone."""

    def __init__(self, latent: int = 200, features: Sequence[int] = (512, 256, 128, 64)) -> None:
        super().__init__()
        layers: list[nn.Module] = [*_up(latent, features[0], stride=1, padding=0)]
        for below, above in zip(features, features[1:]):
            layers += _up(below, above, stride=2, padding=1)
        self.layers = nn.Sequential(*layers, nn.ConvTranspose3d(features[-1], 1, 4, stride=2, padding=1), nn.Sigmoid())

    def forward(self, latent: Tensor) -> Tensor:
        """(N, latent) to (N, 1, 64, 64, 64)."""
        return self.layers(latent[:, :, None, None, None])


def _stage(below: int, above: int, stride: int) -> nn.Sequential:
    return nn.Sequential(*_convolution(below, above, stride), *_convolution(above, above, 1))


def _convolution(below: int, above: int, stride: int) -> list[nn.Module]:
    convolution = nn.Conv3d(below, above, 3, stride=stride, padding=1)
    return [convolution, nn.InstanceNorm3d(above, affine=True), nn.LeakyReLU(0.01)]


def _up(below: int, above: int, stride: int, padding: int) -> list[nn.Module]:
    up = nn.ConvTranspose3d(below, above, 4, stride=stride, padding=padding, bias=False)
    return [up, nn.BatchNorm3d(above), nn.ReLU()]
