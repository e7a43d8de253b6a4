"""KernelBench level 1, problem 77: 3D transposed convolution, strided, padded, dilated."""

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
dilation = 2


class ModelNew(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv_transpose3d = tconv3d.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride, padding, bias=bias, dilation=dilation
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.conv_transpose3d(x)


def get_inputs() -> list[Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[object]:
    return [in_channels, out_channels, kernel_size, stride, padding, dilation]
