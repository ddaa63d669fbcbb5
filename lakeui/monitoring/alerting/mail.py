"""Django's connection to a mail server, with a timeout for the whole instead of for each read."""

import smtplib
import socket
import ssl
from collections.abc import Mapping, Sequence
from email.utils import parseaddr
from functools import cached_property
from time import monotonic
from types import MappingProxyType
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.smtp import EmailBackend

from lakeui.monitoring.alerting.webhooks import (
    Cutter,
    DeliveryError,
    connect_to_first,
    resolve_host,
)

Refused = Mapping[str, tuple[int, bytes]]
"""Recipients, with the code and the words of the server."""


class _Bounded(smtplib.SMTP):
    """A conversation that is cut when its timeout is over."""

    _cutter: Cutter | None = None
    refused: Refused = MappingProxyType({})

    def sendmail(
        self,
        from_addr: str,
        to_addrs: str | Sequence[str],
        msg: Any,  # noqa: ANN401 - a text or bytes
        mail_options: Sequence[str] = (),
        rcpt_options: Sequence[str] = (),
    ) -> dict[str, tuple[int, bytes]]:
        """Send as smtplib does; store the recipients refused by a server that took others."""
        refused = super().sendmail(from_addr, to_addrs, msg, mail_options, rcpt_options)
        self.refused = refused
        return refused

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        until = monotonic() + timeout
        line = connect_to_first(
            [(address, port) for address in resolve_host(host, port, until)], until
        )
        self._cutter = Cutter(line, until)
        return line

    def close(self) -> None:
        super().close()
        if self._cutter is not None:
            self._cutter.stop()


class _BoundedByTLS(smtplib.SMTP_SSL, _Bounded):
    """A bounded conversation that begins with TLS."""


class BoundedBackend(EmailBackend):
    """Django's SMTP backend with a time limit for the whole conversation."""

    refused: Refused = MappingProxyType({})

    def _send(self, email_message: EmailMessage) -> bool:
        sent: bool = super()._send(email_message)  # type: ignore[misc]  # not in its stubs
        if isinstance(self.connection, _Bounded):
            self.refused = self.connection.refused
        return sent

    @cached_property
    def connection_class(self) -> type[smtplib.SMTP]:
        """The class of the connection to the server."""
        return _BoundedByTLS if self.use_ssl else _Bounded


def send(mail: EmailMessage, seconds: float) -> str:
    """Send a mail within `seconds`; describe recipients refused by a server that took others.

    Raises:
        DeliveryError: the mail server took too long.
        OSError, smtplib.SMTPException: it cannot be reached, or took no message.
    """
    until = monotonic() + seconds
    mail.connection = get_connection(timeout=seconds)
    try:
        mail.send()
    except (OSError, smtplib.SMTPException) as error:
        if monotonic() < until and not isinstance(error, TimeoutError):
            raise
        msg = f"the mail server did not accept it within {seconds:g} s"
        raise DeliveryError(msg) from error
    refused: Refused = getattr(mail.connection, "refused", {})
    names = ", ".join(f"{name} ({code})" for name, (code, _) in refused.items())
    return f"refused for {names}"[:500] if names else ""


def server_problem(seconds: float) -> str:
    """Return why the configured mail server accepts no message, in words; "" if it would.

    The conversation goes as far as the sender; no message is sent.
    """
    backend, until = get_connection(timeout=seconds), monotonic() + seconds
    if not isinstance(backend, BoundedBackend):  # a file, say
        return ""
    where = f"The mail server {backend.host}:{backend.port}"
    try:
        backend.open()
        code = _send_sender(backend.connection)
        if code != 250:
            return f"{where} refuses the sender {settings.DEFAULT_FROM_EMAIL} ({code})."
    except (OSError, smtplib.SMTPException) as error:
        if monotonic() >= until or isinstance(error, TimeoutError):
            return f"{where} did not answer within {seconds:g} s."
        return f"{where} {_words_of(error)}."
    finally:
        backend.fail_silently = True
        backend.close()
    return ""


def _send_sender(conversation: smtplib.SMTP | None) -> int:
    if conversation is None:
        return 0
    conversation.ehlo_or_helo_if_needed()
    return conversation.mail(parseaddr(settings.DEFAULT_FROM_EMAIL)[1])[0]


_WORDS: tuple[tuple[type[Exception], str], ...] = (
    (smtplib.SMTPAuthenticationError, "refuses the login ({0.smtp_code})"),
    (smtplib.SMTPNotSupportedError, "does not support an option of EMAIL_URL: {0}"),
    (smtplib.SMTPServerDisconnected, "closed the connection: it may need smtp+ssl://"),
    (smtplib.SMTPResponseException, "answered {0.smtp_code}"),
    (ssl.SSLCertVerificationError, "has a certificate that is not trusted: {0.verify_message}"),
    (ssl.SSLError, "does not support the TLS mode of EMAIL_URL ({0.reason})"),
    (OSError, "is unreachable: {0.strerror}"),
)
"""By the first matching class; without the server's echo of the conversation."""


def _words_of(error: Exception) -> str:
    words = (words.format(error) for kind, words in _WORDS if isinstance(error, kind))
    return next(words, f"did not answer like a mail server ({type(error).__name__})").rstrip(".")
