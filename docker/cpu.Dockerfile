# An image with PyTorch's build for the CPU and tconv3d:
#
#   docker build -f docker/cpu.Dockerfile -t tconv3d:cpu --build-arg PIP_EXTRA_INDEX_URL=<index of PyTorch's CPU builds> .
#   docker run --rm tconv3d:cpu python -m tconv3d demo
FROM python:3.12-slim AS base
ARG PIP_EXTRA_INDEX_URL
ARG TORCH=2.13.0+cpu
RUN pip install --no-cache-dir "torch==${TORCH}" "numpy"

FROM base AS build
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN pip wheel --no-deps --wheel-dir /dist /src

FROM base
COPY --from=build /dist /dist
RUN pip install --no-cache-dir --no-deps /dist/*.whl && rm -r /dist && python -m tconv3d doctor
CMD ["python", "-m", "tconv3d", "doctor"]
