# svr in a container, for a user without rights:
#   docker build -t svr-async .                               # all of it
#   docker build -t svr-async --build-arg PARTS=judge .       # judging alone: a quarter of the size, no training
#   docker run --rm -v "$PWD:/data" svr-async eval rubricbench --sample --judge rules
# Runs and the cache of paid replies lie in /data: mount a folder there that the user 1000 may write to.
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml setup.cfg svr_judge.py README.md LICENSE ./
COPY svr_async ./svr_async
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
ARG PARTS=all
COPY requirements-judge.txt /tmp/
COPY --from=build /wheels /wheels
RUN if [ "$PARTS" = judge ]; then pip install --no-cache-dir -r /tmp/requirements-judge.txt && deps=--no-deps; fi \
 && pip install --no-cache-dir $deps /wheels/*.whl \
 && useradd --create-home --uid 1000 svr \
 && install --directory --owner svr /data
USER svr
WORKDIR /data
ENV SVR_CACHE=/data/cache/replies
ENTRYPOINT ["svr"]
CMD ["--help"]
