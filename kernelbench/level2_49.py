"""KernelBench level 2, problem 49: 3D transposed convolution, softmax over channels, sigmoid.

Nothing pointwise follows the convolution directly.
"""

import torch
from torch import Tensor, nn

import tconv3d

batch_size = 16
in_channels = 32
out_channels = 64
kernel_size = 3
depth, height, width = 16, 32, 32
stride = 2
padding = 1
output_padding = 1


class ModelNew(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        output_padding: int,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.conv_transpose = tconv3d.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride, padding, output_padding, bias=bias
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(torch.softmax(self.conv_transpose(x), dim=1))


def get_inputs() -> list[Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[object]:
    return [in_channels, out_channels, kernel_size, stride, padding, output_padding]
