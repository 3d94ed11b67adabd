# syntax=docker/dockerfile:1
# lease in an image without anything else: for `watchdog`, `ui`, `metrics`, `enqueue`. A worker needs the programs that it is
# to run, so it belongs into your image:  COPY --from=lease /usr/bin/lease /usr/bin/lease
#
#   bun scripts/release.ts --target linux-x64 && docker build --build-arg VERSION=1.0.0 -t lease .
#   docker run -v lease:/var/lib/lease lease watchdog
#
# Mount the folder, never the file alone: a store has a log beside it, and a second name for it loses jobs (lease refuses).
# One machine per folder: on a network volume use PostgreSQL (-e LEASE_STORE=postgres://…).
FROM debian:12-slim AS unpacked
ARG VERSION
ARG TARGETARCH=amd64
COPY dist/release/ /release/
RUN set -eu; \
    case "$TARGETARCH" in amd64) system=linux-x64 ;; arm64) system=linux-arm64 ;; *) echo "no lease for $TARGETARCH" >&2; exit 1 ;; esac; \
    archive="lease-$VERSION-$system.tar.gz"; \
    cd /release; grep -F "  $archive" SHA256SUMS | sha256sum --check --strict; \
    mkdir /unpacked /store; tar -xzf "$archive" -C /unpacked --strip-components=1; \
    chmod 0700 /store

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=unpacked /unpacked/lease /usr/bin/lease
COPY --from=unpacked /unpacked/LICENSE /usr/share/licenses/lease/LICENSE
COPY --from=unpacked --chown=65532:65532 /store /var/lib/lease
ENV LEASE_STORE=/var/lib/lease/lease.db
VOLUME /var/lib/lease
USER 65532:65532
# TERM drains; give it the time: docker stop -t 45.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/lease"]
CMD ["watchdog"]
