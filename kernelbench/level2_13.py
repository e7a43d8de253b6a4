"""KernelBench level 2, problem 13: 3D transposed convolution, mean over depth, add a bias, softmax, tanh, scale.

Nothing pointwise follows the convolution directly.
"""

import torch
from torch import Tensor, nn

import tconv3d

batch_size = 16
in_channels = 16
out_channels = 64
kernel_size = 3
depth, height, width = 32, 128, 128
stride = 1
padding = 1
scaling_factor = 2.0


class ModelNew(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        scaling_factor: float,
    ) -> None:
        super().__init__()
        self.conv_transpose = tconv3d.ConvTranspose3d(in_channels, out_channels, kernel_size, stride, padding)
        self.bias = nn.Parameter(torch.randn(1, out_channels, 1, 1, 1))
        self.scaling_factor = scaling_factor

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_transpose(x).mean(dim=2, keepdim=True)
        return torch.tanh(torch.softmax(x + self.bias, dim=1)) * self.scaling_factor


def get_inputs() -> list[Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[object]:
    return [in_channels, out_channels, kernel_size, stride, padding, scaling_factor]
