"""TLS under the server: the context it is spoken with, and one connection that speaks it."""

from __future__ import annotations

import ssl
from typing import TypeAlias

import trio

from headrace.http.streams import BoundedStream
from headrace.runtime.errors import SettingError
from headrace.runtime.settings import Settings

Secured: TypeAlias = "trio.SSLStream[BoundedStream]"

# What clients may choose from by ALPN; the first that they know too.
PROTOCOLS = ["h2", "http/1.1"]


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    """None where no certificate is set. Raises `SettingError`, which names the setting."""
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing = "tls_certificate" if certificate is None else "tls_key"
        raise SettingError(f"{missing}: is needed too where the other of the two is set")
    for name, file in (("tls_certificate", certificate), ("tls_key", key)):
        try:
            file.read_bytes()
        except OSError as error:
            raise SettingError(f"{name}: {file}: {error.strerror}") from None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    # Both are asked for by RFC 7540, section 9.2.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(PROTOCOLS)
    try:
        # The empty passphrase keeps OpenSSL from asking for one at a terminal.
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise SettingError(
            f"tls_certificate: {certificate} and tls_key {key} cannot be used: {reason}"
        ) from None
    return context


def secured(stream: BoundedStream, context: ssl.SSLContext) -> Secured:
    """The stream under TLS. A client that closes without saying so in TLS has closed all the
    same, as most do."""
    stream.is_under_tls = True
    return trio.SSLStream(stream, context, server_side=True, https_compatible=True)
