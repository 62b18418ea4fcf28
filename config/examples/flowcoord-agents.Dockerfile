# The image of flowcoord-agents.yaml. Build it in a folder that holds this file and the `flowcoord` of the package.
FROM debian:trixie-slim
RUN apt-get update && apt-get install -y --no-install-recommends docker-cli && rm -rf /var/lib/apt/lists/*
COPY flowcoord /usr/bin/flowcoord
