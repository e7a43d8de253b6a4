"""KernelBench level 2, problem 61: 3D transposed convolution, ReLU, group norm.

The convolution applies the ReLU as it stores.
"""

import torch
from torch import Tensor, nn

import tconv3d

batch_size = 16
in_channels = 64
out_channels = 128
kernel_size = 3
depth, height, width = 32, 32, 32
groups = 8
bias = False


class ModelNew(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        groups: int,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv_transpose = tconv3d.ConvTranspose3d(
            in_channels, out_channels, kernel_size, bias=bias, epilogue=tconv3d.Epilogue().relu()
        )
        self.group_norm = nn.GroupNorm(groups, out_channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.group_norm(self.conv_transpose(x))


def get_inputs() -> list[Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[object]:
    return [in_channels, out_channels, kernel_size, groups, bias]
