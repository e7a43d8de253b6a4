"""KernelBench level 2, problem 20: 3D transposed convolution x, then ((x + bias) + x) * x + x.

No chain of steps reads its own beginning again, so the arithmetic is PyTorch's. Its other three uses of x have no
gradient, as in KernelBench's Model.
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
bias_shape = (out_channels, 1, 1, 1)


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

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_transpose(x)
        original = x.detach()
        return torch.addcmul(original, x + self.bias + original, original)


def get_inputs() -> list[Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[object]:
    return [in_channels, out_channels, kernel_size, stride, padding, output_padding, bias_shape]
