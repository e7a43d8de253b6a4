"""KernelBench level 2, problem 89: 3D transposed convolution, max pool, softmax, subtract, swish, max over channels.

Nothing pointwise follows the convolution directly.
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
output_padding = 1
pool_kernel_size = 2
pool_stride = 2
pool_padding = 0


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
        pool_stride: int,
        pool_padding: int,
    ) -> None:
        super().__init__()
        self.conv_transpose = tconv3d.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride, padding, output_padding
        )
        self.max_pool = nn.MaxPool3d(pool_kernel_size, pool_stride, pool_padding)
        self.subtract = nn.Parameter(torch.randn(out_channels))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.softmax(self.max_pool(self.conv_transpose(x)), dim=1)
        x = F.silu(x - self.subtract.view(1, -1, 1, 1, 1))
        return x.amax(dim=1)


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
        pool_stride,
        pool_padding,
    ]
