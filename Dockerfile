# docker build --build-arg USER_ID=$(id -u) --tag hindsight . && docker run --rm -v "$PWD/results:/hindsight/results" -v "$PWD/figures:/hindsight/figures" hindsight make replicate ARGS="--config preset=smoke"
# Run in a clone: results and figures stay there, and belong to you.
FROM debian:bookworm-slim@sha256:abd67ffcfa541b485a3dff59865ab629aa048a6c613e639d36e7456b0b229241
# PyTorch for CPUs; with --build-arg TORCH= PyPI's, which includes CUDA.
ARG TORCH=cpu
ARG USER_ID=1000
RUN apt-get update && apt-get install --yes --no-install-recommends \
    ca-certificates git libosmesa6 make python3-venv && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid $USER_ID hindsight && install --directory --owner hindsight /hindsight
WORKDIR /hindsight
COPY --chown=hindsight . .
USER hindsight
RUN make .venv/ready
ENV PATH="/hindsight/.venv/bin:$PATH"
CMD ["make"]
