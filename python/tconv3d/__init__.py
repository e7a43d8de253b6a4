"""3D transposed convolution for PyTorch: the results of ``torch.nn.ConvTranspose3d``, sooner.

>>> import torch, tconv3d
>>> up = tconv3d.ConvTranspose3d(8, 4, kernel_size=2, stride=2)
>>> up(torch.randn(1, 8, 4, 4, 4)).shape
torch.Size([1, 4, 8, 8, 8])
"""

import warnings
from contextlib import suppress

from . import _library, fallback
from ._decompositions import decompositions
from .accelerate import AccelerateReport, accelerate, report, restore
from .epilogue import Epilogue
from .functional import conv_transpose3d
from .nn import ConvTranspose3d, LazyConvTranspose3d
from .switch import disable, enable, is_enabled

__version__ = "0.1.0"

__all__ = [
    "AccelerateReport",
    "ConvTranspose3d",
    "Epilogue",
    "LazyConvTranspose3d",
    "accelerate",
    "conv_transpose3d",
    "decompositions",
    "disable",
    "enable",
    "fallback",
    "is_enabled",
    "report",
    "restore",
]

if _library.failure is not None:
    warnings.warn(f"{_library.failure}\n`python -m tconv3d doctor` tells more.", stacklevel=2)
else:
    with suppress(ImportError):  # the first versions of PyTorch that are supported have no registry of formulas
        from . import _flops  # noqa: F401  (registers the formulas)
with suppress(ImportError):  # PyTorch means to give torch.ao.quantization up
    from . import _quantization  # noqa: F401  (registers what becomes of the module)
