"""KernelBench level 2, problem 74: 3D transposed convolution, leaky ReLU, multiply, leaky ReLU, max pool.

The convolution does all but the pooling as it stores; the multiplier is a parameter with a value per channel.
"""

import torch
from torch import Tensor, nn

import tconv3d

batch_size = 16
in_channels = 16
out_channels = 32
kernel_size = 3
depth, height, width = 16, 32, 32
stride = 2
padding = 1
output_padding = 1
multiplier_shape = (out_channels, 1, 1, 1)


class ModelNew(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        output_padding: int,
        multiplier_shape: tuple[int, ...],
    ) -> None:
        super().__init__()
        self.conv_transpose = tconv3d.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride, padding, output_padding
        )
        self.multiplier = nn.Parameter(torch.randn(multiplier_shape))
        self.max_pool = nn.MaxPool3d(kernel_size=2)

    def forward(self, x: Tensor) -> Tensor:
        conv = self.conv_transpose
        chain = tconv3d.Epilogue().leaky_relu(0.2).channel_mul(self.multiplier.flatten()).leaky_relu(0.2)
        x = tconv3d.conv_transpose3d(
            x, conv.weight, conv.bias, conv.stride, conv.padding, conv.output_padding, epilogue=chain
        )
        return self.max_pool(x)


def get_inputs() -> list[Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[object]:
    return [in_channels, out_channels, kernel_size, stride, padding, output_padding, multiplier_shape]
