"""KernelBench level 2, problem 78: 3D transposed convolution, max pool, max pool, sum over channels.

Nothing pointwise follows the convolution directly.
"""

import torch
from torch import Tensor, nn

import tconv3d

batch_size = 16
in_channels = 32
out_channels = 64
kernel_size = 5
depth, height, width = 32, 32, 32
stride = 2
padding = 2


class ModelNew(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
    ) -> None:
        super().__init__()
        self.conv_transpose = tconv3d.ConvTranspose3d(in_channels, out_channels, kernel_size, stride, padding)
        self.max_pool1 = nn.MaxPool3d(kernel_size=2)
        self.max_pool2 = nn.MaxPool3d(kernel_size=3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.max_pool2(self.max_pool1(self.conv_transpose(x)))
        return x.sum(dim=1, keepdim=True)


def get_inputs() -> list[Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[object]:
    return [in_channels, out_channels, kernel_size, stride, padding]
