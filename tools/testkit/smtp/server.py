"""A real SMTP receiver for tests, over aiosmtpd, on a free loopback port.

The first argument is a JSON object: the folder in which mails are stored, and options. The port is printed on the
first line of standard output. The process ends when its standard input is closed, so that it never outlives its test.

What happens to a mail is decided by the local part of its recipient:

  refuse-NNN…       RCPT is answered with NNN
  defer-NNN…        RCPT is answered with NNN, and asks to try again in 300 seconds
  greylist…         RCPT is deferred the first time, and accepted afterwards
  refuse-data-NNN…  the final dot is answered with NNN; nothing is stored
  drop-after-dot…   the mail is stored, and the connection is closed without an answer
  lose-after-dot…   the mail is not stored, and the connection is closed without an answer
  slow-N…           the final dot is answered after N milliseconds
  hold-rcpt…        RCPT is never answered
"""

import asyncio
import json
import os
import re
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword


class Receiver:
    """Stores each mail as <number>.eml, and then its envelope as <number>.json."""

    def __init__(self, options):
        self.folder = options["folder"]
        self.pipelining = options.get("pipelining", True)
        self.count = 0
        self.greylisted = set()

    async def handle_EHLO(self, server, session, envelope, hostname, responses):
        session.host_name = hostname
        if self.pipelining:
            responses.insert(1, "250-PIPELINING")
        return responses

    async def handle_RCPT(self, server, session, envelope, address, options):
        local = address.rsplit("@", 1)[0]
        if refused := re.match(r"refuse-(\d{3})", local):
            return f"{refused[1]} {refused[1][0]}.1.1 <{address}>: Recipient address rejected: User unknown"
        if deferred := re.match(r"defer-(\d{3})", local):
            return f"{deferred[1]} 4.7.1 <{address}>: Try again in 300 seconds"
        if local.startswith("greylist") and address not in self.greylisted:
            self.greylisted.add(address)
            return "451 4.7.1 Greylisted, try again in 60 seconds"
        if local.startswith("hold-rcpt"):
            await asyncio.Event().wait()
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 Recipient OK"

    async def handle_DATA(self, server, session, envelope):
        local = envelope.rcpt_tos[0].rsplit("@", 1)[0]
        if refused := re.match(r"refuse-data-(\d{3})", local):
            return f"{refused[1]} {refused[1][0]}.7.1 Message rejected due to content restrictions"
        if local.startswith("lose-after-dot"):
            server.transport.abort()
            return "451 4.3.0 never read"
        number = self.store(session, envelope)
        if local.startswith("drop-after-dot"):
            server.transport.abort()
        if slow := re.match(r"slow-(\d+)", local):
            await asyncio.sleep(int(slow[1]) / 1000)
        return f"250 2.0.0 Ok: queued as {number:012X}"

    def store(self, session, envelope):
        self.count += 1
        path = os.path.join(self.folder, f"{self.count:06}")
        with open(f"{path}.eml", "wb") as file:
            file.write(envelope.original_content)
        about = {
            "mail_from": envelope.mail_from,
            "rcpt_to": envelope.rcpt_tos,
            "mail_options": envelope.mail_options,
            "is_encrypted": session.ssl is not None,
            "user": session.auth_data,
            "peer_port": session.peer[1],
        }
        # The envelope appears at once and last, so that a reader who sees it sees the whole mail.
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump(about, file)
        os.rename(f"{path}.new", f"{path}.json")
        return self.count


def tls_context(options):
    if "certificate" not in options:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options["certificate"], options["key"])
    return context


def authenticator(options):
    def authenticate(server, session, envelope, mechanism, data):
        expected = LoginPassword(options["user"].encode(), options["password"].encode())
        return AuthResult(success=data == expected, handled=False, auth_data=options["user"])

    return authenticate if "user" in options else None


async def serve(options):
    loop = asyncio.get_running_loop()
    receiver, context, authenticate = Receiver(options), tls_context(options), authenticator(options)
    is_implicit = options.get("implicit_tls", False)

    def protocol():
        return SMTP(
            receiver,
            loop=loop,
            hostname="sink.test",
            ident="test sink",
            enable_SMTPUTF8=options.get("smtputf8", True),
            data_size_limit=options.get("max_bytes", 33554432),
            tls_context=None if is_implicit else context,
            require_starttls=context is not None and not is_implicit,
            authenticator=authenticate,
            auth_required=authenticate is not None,
            auth_require_tls=False,
            auth_exclude_mechanism=options.get("without_auth", []),
        )

    server = await loop.create_server(protocol, "127.0.0.1", 0, ssl=context if is_implicit else None)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    os._exit(0)


asyncio.run(serve(json.loads(sys.argv[1])))
