# The control plane in a container: docker build -t kapi . && docker run --rm -p 6443:6443 -v kapi:/data kapi
# docs/how-to/container.md says how to use it.

FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY generate generate
COPY src src
RUN python -m venv /kapi && /kapi/bin/pip install --no-cache-dir ".[server]"

FROM python:3.13-slim
COPY --from=build /kapi /kapi
RUN useradd --system --uid 65532 --no-create-home kapi && install -d -o kapi -m 700 /data
ENV PATH=/kapi/bin:$PATH
USER kapi
WORKDIR /data
VOLUME /data
EXPOSE 6443
HEALTHCHECK --interval=5s --start-period=30s CMD ["python", "-c", "import ssl, urllib.request as u; u.urlopen('https://127.0.0.1:6443/readyz', context=ssl._create_unverified_context(), timeout=5)"]
ENTRYPOINT ["kapi"]
CMD ["up", "--data-dir=/data", "--bind=0.0.0.0:6443", "--tls-san=localhost", "--tls-san=kapi"]
