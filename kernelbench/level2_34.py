"""KernelBench level 2, problem 34: 3D transposed convolution, layer norm, GELU, scale.

Nothing pointwise follows the convolution directly. The layer norm has as many weights as there are channels but runs
over W, the last dimension: the output must be that wide.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tconv3d

batch_size = 32
in_channels = 32
out_channels = 64
kernel_size = 4
depth, height, width = 16, 32, 32
stride = 2
padding = 1
bias = True
eps = 1e-5
scaling_factor = 1.0


class ModelNew(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        bias: bool = True,
        eps: float = 1e-5,
        scaling_factor: float = 1.0,
    ) -> None:
        super().__init__()
        self.conv_transpose = tconv3d.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride, padding, bias=bias
        )
        self.layer_norm = nn.LayerNorm(out_channels, eps=eps)
        self.scaling_factor = scaling_factor

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.layer_norm(self.conv_transpose(x))) * self.scaling_factor


def get_inputs() -> list[Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[object]:
    return [in_channels, out_channels, kernel_size, stride, padding, bias, eps, scaling_factor]
