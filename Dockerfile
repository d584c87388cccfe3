# docker build --tag hindsight . && docker run --rm hindsight make replicate ARGS="--config preset=smoke"
FROM debian:bookworm-slim
RUN apt-get update && apt-get install --yes --no-install-recommends \
    ca-certificates git libosmesa6 make python3-venv && rm -rf /var/lib/apt/lists/*
WORKDIR /hindsight
COPY . .
RUN make .venv/ready
ENV PATH="/hindsight/.venv/bin:$PATH"
CMD ["make"]
