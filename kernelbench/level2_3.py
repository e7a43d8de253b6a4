"""KernelBench level 2, problem 3: 3D transposed convolution, add a scalar, layer norm, average pool, GELU.

The scalar is a parameter; the convolution adds it as it stores, the same value for each channel. The layer norm has as
many weights as there are channels but runs over W, the last dimension: the output must be that wide.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tconv3d

batch_size = 32
in_channels = 32
out_channels = 64
kernel_size = (3, 3, 3)
depth, height, width = 16, 32, 32
stride = (2, 2, 2)
padding = (1, 1, 1)
output_padding = (1, 1, 1)
sum_weight = 1.0
norm_shape = (out_channels,)
pool_kernel_size = (2, 2, 2)


class ModelNew(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, int, int],
        stride: tuple[int, int, int],
        padding: tuple[int, int, int],
        output_padding: tuple[int, int, int],
        sum_weight: float,
        norm_shape: tuple[int],
        pool_kernel_size: tuple[int, int, int],
    ) -> None:
        super().__init__()
        self.conv_transpose = tconv3d.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride, padding, output_padding
        )
        self.sum_weight = nn.Parameter(torch.tensor(sum_weight))
        self.norm = nn.LayerNorm(norm_shape)
        self.avg_pool = nn.AvgPool3d(pool_kernel_size)

    def forward(self, x: Tensor) -> Tensor:
        conv = self.conv_transpose
        chain = tconv3d.Epilogue().channel_add(self.sum_weight.expand(conv.out_channels))
        x = tconv3d.conv_transpose3d(
            x, conv.weight, conv.bias, conv.stride, conv.padding, conv.output_padding, epilogue=chain
        )
        return F.gelu(self.avg_pool(self.norm(x)))


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
        sum_weight,
        norm_shape,
        pool_kernel_size,
    ]
