# An image with PyTorch's build for CUDA, tconv3d, and its kernels compiled for one kind of GPU. No CUDA toolkit is needed:
# PyTorch's packages bring NVRTC, and the NVIDIA container toolkit brings the driver when the container starts.
#
#   docker build -f docker/cuda.Dockerfile -t tconv3d:cuda --build-arg GPU=h200 .
#   docker run --rm --gpus all tconv3d:cuda python -m tconv3d doctor
#
# PROBLEMS are those whose first call shall not wait for a compiler: problem strings or files, as `precompile` takes them.
FROM python:3.12-slim AS base
ARG TORCH=2.11.0
RUN pip install --no-cache-dir "torch==${TORCH}" "numpy"

FROM base AS build
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN pip wheel --no-deps --wheel-dir /dist /src

FROM base
COPY --from=build /dist /dist
RUN pip install --no-cache-dir --no-deps /dist/*.whl && rm -r /dist && python -m tconv3d doctor
ARG GPU=h200
ARG PROBLEMS=baselines
# Read by whoever owns it alone: a container that runs as another user compiles its own.
ENV TCONV3D_CACHE_DIR=/opt/tconv3d/cache
RUN python -m tconv3d precompile "${PROBLEMS}" --gpu "${GPU}" --dtype tf32,bf16 --layout ncdhw
CMD ["python", "-m", "tconv3d", "doctor"]
