"""KernelBench level 2, problem 58: 3D transposed convolution, logsumexp, x * sigmoid(x + 3) / 6, subtract, clamp.

Nothing pointwise follows the convolution directly. KernelBench's Model ignores `bias_shape`.
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
bias_shape = (1, 1, 1, 1)


class ModelNew(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        bias_shape: tuple[int, ...],
    ) -> None:
        super().__init__()
        self.conv_transpose = tconv3d.ConvTranspose3d(in_channels, out_channels, kernel_size, stride, padding)
        self.bias = nn.Parameter(torch.randn(1, 1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.logsumexp(self.conv_transpose(x), dim=1, keepdim=True)
        x = x * torch.sigmoid(x + 3) / 6
        return torch.clamp(x - self.bias, min=-1, max=1)


def get_inputs() -> list[Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[object]:
    return [in_channels, out_channels, kernel_size, stride, padding, bias_shape]
