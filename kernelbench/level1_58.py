"""KernelBench level 1, problem 58: 3D transposed convolution, asymmetric input, asymmetric kernel."""

import torch
from torch import Tensor, nn

import tconv3d

batch_size = 16
in_channels = 32
out_channels = 16
kernel_size = (3, 5, 7)
depth, height, width = 16, 32, 64


class ModelNew(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, int, int],
        stride: tuple[int, int, int] = (1, 1, 1),
        padding: tuple[int, int, int] = (0, 0, 0),
        output_padding: tuple[int, int, int] = (0, 0, 0),
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv_transpose3d = tconv3d.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.conv_transpose3d(x)


def get_inputs() -> list[Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[object]:
    return [in_channels, out_channels, kernel_size]
