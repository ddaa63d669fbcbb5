# The product as one image: docker-compose.yml and docs/operations.md say what to run in it.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY engine engine
COPY lakeui lakeui
COPY workers workers
COPY templates templates
COPY static static
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /dist .

FROM python:3.11-slim-bookworm
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
 && rm -rf /var/lib/apt/lists/*
COPY constraints.txt /dist/
COPY --from=build /dist /dist
RUN pip install --no-cache-dir -c /dist/constraints.txt "$(echo /dist/lakeui-*.whl)[server,lineage,tracing]"
RUN useradd --create-home lake && mkdir /data && chown lake /data
USER lake
ENV LAKEUI_HOME=/data PYTHONUNBUFFERED=1
EXPOSE 8000
HEALTHCHECK --interval=15s --start-period=30s CMD ["python", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8000, timeout=4); c.request('GET', '/livez'); raise SystemExit(c.getresponse().status >= 500)"]
CMD ["uvicorn", "lakeui.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--no-access-log", "--no-proxy-headers", "--timeout-graceful-shutdown", "5"]
