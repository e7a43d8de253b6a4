"""KernelBench level 2, problem 38: average pool, 3D transposed convolution, clamp, softmax over space, scale.

The convolution clamps as it stores. A softmax over 131,072 voxels gives values of about 1e-5, which lie below
KernelBench's tolerance: compare them relatively.
"""

import torch
from torch import Tensor, nn

import tconv3d

batch_size = 32
in_channels = 32
out_channels = 64
kernel_size = 3
depth, height, width = 32, 64, 64
stride = 2
padding = 1
output_padding = 1
pool_kernel_size = 2
clamp_min = 0.0
clamp_max = 1.0


class ModelNew(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        output_padding: int,
        pool_kernel_size: int,
        clamp_min: float,
        clamp_max: float,
    ) -> None:
        super().__init__()
        self.avg_pool = nn.AvgPool3d(pool_kernel_size)
        self.conv_transpose = tconv3d.ConvTranspose3d(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            epilogue=tconv3d.Epilogue().clamp(min=clamp_min, max=clamp_max),
        )
        self.scale = nn.Parameter(torch.ones(1, out_channels, 1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_transpose(self.avg_pool(x))
        return torch.softmax(x.flatten(2), dim=2).view_as(x) * self.scale


def get_inputs() -> list[Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[object]:
    return [
        in_channels,
        out_channels,
        kernel_size,
        stride,
        padding,
        output_padding,
        pool_kernel_size,
        clamp_min,
        clamp_max,
    ]
