"""KernelBench level 2, problem 15: 3D transposed convolution, batch norm, subtract the spatial mean.

Nothing pointwise follows the convolution directly. The batch norm takes its statistics from the batch, because
KernelBench never calls `eval()`.
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


class ModelNew(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.conv_transpose = tconv3d.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride, padding, bias=bias
        )
        self.batch_norm = nn.BatchNorm3d(out_channels)

    def forward(self, x: Tensor) -> Tensor:
        x = self.batch_norm(self.conv_transpose(x))
        return x - x.mean(dim=(2, 3, 4), keepdim=True)


def get_inputs() -> list[Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[object]:
    return [in_channels, out_channels, kernel_size, stride, padding]
