"""KernelBench level 2, problem 72: 3D transposed convolution, batch norm, average pool, average pool.

Nothing pointwise follows the convolution directly. The batch norm takes its statistics from the batch, because
KernelBench never calls `eval()`. Its Model ignores `bias_shape`.
"""

import torch
from torch import Tensor, nn

import tconv3d

batch_size = 64
in_channels = 3
out_channels = 16
kernel_size = 3
depth, height, width = 32, 32, 32
stride = 2
padding = 1
bias_shape = (out_channels, 1, 1, 1)


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
        self.batch_norm = nn.BatchNorm3d(out_channels)
        self.avg_pool1 = nn.AvgPool3d(kernel_size=2)
        self.avg_pool2 = nn.AvgPool3d(kernel_size=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.avg_pool2(self.avg_pool1(self.batch_norm(self.conv_transpose(x))))


def get_inputs() -> list[Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[object]:
    return [in_channels, out_channels, kernel_size, stride, padding, bias_shape]
