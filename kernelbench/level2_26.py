"""KernelBench level 2, problem 26: 3D transposed convolution, add a second input, x * hardswish(x).

The convolution adds the second input as it stores. The parameter `bias` is KernelBench's, which never uses it.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tconv3d

batch_size = 128
in_channels = 32
out_channels = 64
kernel_size = 3
depth, height, width = 16, 16, 16
stride = 2
padding = 1
output_padding = 1
bias_shape = (out_channels, 1, 1, 1, 1)


class ModelNew(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        output_padding: int,
        bias_shape: tuple[int, ...],
    ) -> None:
        super().__init__()
        self.conv_transpose = tconv3d.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride, padding, output_padding
        )
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x: Tensor, add_input: Tensor) -> Tensor:
        conv = self.conv_transpose
        chain = tconv3d.Epilogue().residual_add(add_input)
        x = tconv3d.conv_transpose3d(
            x, conv.weight, conv.bias, conv.stride, conv.padding, conv.output_padding, epilogue=chain
        )
        return x * F.hardswish(x)


def get_inputs() -> list[Tensor]:
    return [
        torch.rand(batch_size, in_channels, depth, height, width),
        torch.rand(batch_size, out_channels, depth * stride, height * stride, width * stride),
    ]


def get_init_inputs() -> list[object]:
    return [in_channels, out_channels, kernel_size, stride, padding, output_padding, bias_shape]
