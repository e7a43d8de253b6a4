"""KernelBench level 2, problem 60: 3D transposed convolution, swish, group norm, hardswish.

The convolution applies the swish as it stores.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tconv3d

batch_size = 128
in_channels = 3
out_channels = 16
kernel_size = 3
depth, height, width = 16, 32, 32
stride = 2
padding = 1
groups = 4
eps = 1e-5


class ModelNew(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        groups: int,
        eps: float,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.conv_transpose = tconv3d.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride, padding, bias=bias, epilogue=tconv3d.Epilogue().silu()
        )
        self.group_norm = nn.GroupNorm(groups, out_channels, eps)

    def forward(self, x: Tensor) -> Tensor:
        return F.hardswish(self.group_norm(self.conv_transpose(x)))


def get_inputs() -> list[Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[object]:
    return [in_channels, out_channels, kernel_size, stride, padding, groups, eps]
