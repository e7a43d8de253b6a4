"""KernelBench level 1, problem 73: 3D transposed convolution, asymmetric input, cubic kernel, strided, padded.

The problem is named "grouped", but its init inputs give `groups` in the place of `output_padding`, and its Model drops
`output_padding`: it runs with groups 1 and no output padding. ModelNew does the same, so that both hold the same
parameters.
"""

import torch
from torch import Tensor, nn

import tconv3d

batch_size = 4
in_channels = 32
out_channels = 32
kernel_size = 3
depth, height, width = 32, 64, 128
stride = 2
padding = 1
groups = 4


class ModelNew(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        output_padding: int = 0,
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv_transpose3d = tconv3d.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride, padding, groups=groups, bias=bias
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.conv_transpose3d(x)


def get_inputs() -> list[Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[object]:
    return [in_channels, out_channels, kernel_size, stride, padding, groups]
