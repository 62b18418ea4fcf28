# Image of flowcoord-agents.yaml. Build it in a folder with this file and the `flowcoord` binary of the package.
FROM debian:trixie-slim
RUN apt-get update && apt-get install -y --no-install-recommends docker-cli && rm -rf /var/lib/apt/lists/*
COPY flowcoord /usr/bin/flowcoord
