"""A small network for the tests of tracing and exporting."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import tconv3d
from tconv3d import Epilogue


class Block(nn.Module):
    """Ours between PyTorch's operators, so that a graph goes in and out of it."""

    def __init__(self, epilogue: Epilogue | None = None) -> None:
        super().__init__()
        self.up = tconv3d.ConvTranspose3d(4, 6, 3, stride=2, padding=1, epilogue=epilogue)
        self.last = tconv3d.ConvTranspose3d(6, 2, 2, groups=2, bias=False)

    def forward(self, src: Tensor) -> Tensor:
        return self.last(torch.tanh(self.up(src.sin()))).cos()
