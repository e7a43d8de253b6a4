"""KernelBench level 2, problem 96: 3D transposed convolution, scale, max pool, global average pool, clamp.

The convolution scales as it stores.
"""

import torch
from torch import Tensor, nn

import tconv3d

batch_size = 128
in_channels = 3
out_channels = 16
kernel_size = 3
depth, height, width = 16, 32, 32
stride = 2
padding = 1
scale = 0.5
maxpool_kernel_size = 2


class ModelNew(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        scale: float,
        maxpool_kernel_size: int,
    ) -> None:
        super().__init__()
        self.conv_transpose = tconv3d.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride, padding, epilogue=tconv3d.Epilogue().mul(scale)
        )
        self.maxpool = nn.MaxPool3d(maxpool_kernel_size)
        self.global_avg_pool = nn.AdaptiveAvgPool3d((1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.clamp(self.global_avg_pool(self.maxpool(self.conv_transpose(x))), min=0, max=1)


def get_inputs() -> list[Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[object]:
    return [in_channels, out_channels, kernel_size, stride, padding, scale, maxpool_kernel_size]
