"""A small API of Proxmox VE for one node: what `proxmox_lxc_gpu` asks, with the shapes and messages of the real one.

Imitates pve-container (API2/LXC/Config.pm, check_ct_modify_config_perm, load_current_config, vmconfig_hotplug_pending)
and pve-http-server, which puts the message into the status line. A new ``dev[n]`` reaches a running container at once,
a changed or removed one waits; who is not root@pam with a password may not set any.
"""

from __future__ import annotations

import datetime
import hashlib
import http.server
import ipaddress
import json
import pathlib
import re
import ssl
import threading
import typing as t
import urllib.parse

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

ROOT_ONLY = "Permission check failed (configuring device passthrough is only allowed for root@pam)"
USERS = {"root@pam": "secret", "ops@pve": "secret"}
TOKENS = {"root@pam!ansible": "11111111-2222-3333-4444-555555555555"}
NODES = {f"/dev/nvidia{number}" for number in range(4)} | {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"}


class Refusal(Exception):
    """An answer that is no success: status, words of the status line, errors by parameter."""

    def __init__(self, status: int, words: str, errors: dict[str, str] | None = None) -> None:
        super().__init__(words)
        self.status, self.words, self.errors = status, words, errors


class Container:
    """One container's configuration, with what waits for its next start."""

    def __init__(self, config: dict[str, t.Any], running: bool) -> None:
        self.config, self.running = dict(config), running
        self.pending: dict[str, str] = {}
        self.gone: set[str] = set()
        self.starts = 0

    @property
    def digest(self) -> str:
        """Digest of the file."""
        text = json.dumps([self.config, self.pending, sorted(self.gone)], sort_keys=True)
        return hashlib.sha1(text.encode()).hexdigest()

    def shown(self, current: bool) -> dict[str, t.Any]:
        """As load_current_config gives it: pending changes are in unless the current values are asked for."""
        found = dict(self.config)
        if not current:
            found.update(self.pending)
            found = {key: value for key, value in found.items() if key not in self.gone}
        return {**found, "digest": self.digest}

    def rows(self) -> list[dict[str, t.Any]]:
        """As `pending` gives it."""
        found = []
        for key in sorted({*self.config, *self.pending}):
            row: dict[str, t.Any] = {"key": key}
            if key in self.config:
                row["value"] = self.config[key]
            if key in self.pending:
                row["pending"] = self.pending[key]
            if key in self.gone:
                row["delete"] = 1
            found.append(row)
        return found

    def update(self, words: dict[str, str]) -> None:
        """PUT of the configuration."""
        if words.pop("digest", self.digest) != self.digest:
            raise Refusal(500, "detected modified configuration - file changed by other user? Try again.")
        dropped = [key for key in re.split(r"[,; ]+", words.pop("delete", "")) if key]
        unknown = sorted(key for key in (*words, *dropped) if not re.fullmatch(r"dev\d+|memory|onboot", key))
        if unknown:
            why = "property is not defined in schema and the schema does not allow additional properties"
            raise Refusal(400, "Parameter verification failed.", {unknown[0]: why})
        missing = {key: value.split(",")[0] for key, value in words.items() if value.split(",")[0] not in NODES}
        if missing and self.running:
            key, path = next(iter(missing.items()))
            why = f"unable to hotplug {key}: Device {path} does not exist"
            raise Refusal(400, "Parameter verification failed.", {key: why})
        for key in dropped:
            self.pending.pop(key, None)
            if self.running and key in self.config:
                self.gone.add(key)
            else:
                self.config.pop(key, None)
        for key, value in words.items():
            self.gone.discard(key)
            if self.running and key in self.config:
                self.pending[key] = value
            else:
                self.config[key] = value

    def start(self) -> None:
        """Take in what waited."""
        self.config = {key: value for key, value in {**self.config, **self.pending}.items() if key not in self.gone}
        self.pending, self.gone, self.running = {}, set(), True
        self.starts += 1


class Api(http.server.ThreadingHTTPServer):
    """The API of node pve1; `requests` lists method and path of everything asked."""

    def __init__(self, folder: pathlib.Path, containers: dict[int, Container]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.containers, self.asked = containers, []
        self.exitstatus = "OK"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(_certificate(folder / "pve.pem"))
        self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    asked: list[str]

    @property
    def place(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Api

    def log_message(self, format: str, *args: t.Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_GET

    def _answer(self) -> None:
        parts = urllib.parse.urlsplit(self.path)
        size = int(self.headers.get("Content-Length") or 0)
        body = dict(urllib.parse.parse_qsl(self.rfile.read(size).decode(), keep_blank_values=True))
        query = dict(urllib.parse.parse_qsl(parts.query))
        self.server.asked.append(f"{self.command} {parts.path.removeprefix('/api2/json')}")
        try:
            data = self._route(self.command, parts.path.removeprefix("/api2/json/").split("/"), query, body)
            self._reply(200, "OK", {"data": data})
        except Refusal as refusal:
            content: dict[str, t.Any] = {"data": None, "message": refusal.words + "\n"}
            if refusal.errors:
                content["errors"] = refusal.errors
            self._reply(refusal.status, refusal.words, content)

    def _reply(self, status: int, words: str, content: dict[str, t.Any]) -> None:
        text = json.dumps(content).encode()
        self.send_response(status, words)
        self.send_header("Content-Type", "application/json;charset=UTF-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _user(self) -> str:
        """Who asks: a user, or a token as user!name."""
        token = (self.headers.get("Authorization") or "").removeprefix("PVEAPIToken=")
        name, _equals, secret = token.partition("=")
        if TOKENS.get(name) == secret:
            return name
        ticket = re.search(r"PVEAuthCookie=(?:PVE%3A|PVE:)([^:%]+(?:%40|@)[^:%;]+)", self.headers.get("Cookie") or "")
        if not ticket:
            raise Refusal(401, "No ticket")
        if self.command != "GET" and self.headers.get("CSRFPreventionToken") != "csrf":
            raise Refusal(401, "Permission denied - invalid csrf token")
        return urllib.parse.unquote(ticket.group(1))

    def _route(self, method: str, path: list[str], query: dict[str, str], body: dict[str, str]) -> t.Any:
        if path == ["access", "ticket"]:
            user = body.get("username", "")
            if USERS.get(user) != body.get("password"):
                raise Refusal(401, "authentication failure")
            return {"username": user, "ticket": f"PVE:{user}:6A0F", "CSRFPreventionToken": "csrf"}
        user = self._user()
        if path[:2] != ["nodes", "pve1"]:
            node = path[1] if len(path) > 1 else ""
            raise Refusal(
                500,
                f"hostname lookup '{node}' failed - failed to get address info for: {node}: Name or service not known",
            )
        if path[2] == "tasks":
            return {"status": "stopped", "exitstatus": self.server.exitstatus, "upid": path[3]}
        vmid = int(path[3])
        container = self.server.containers.get(vmid)
        if container is None:
            raise Refusal(500, f"Configuration file 'nodes/pve1/lxc/{vmid}.conf' does not exist")
        match (method, *path[4:]):
            case ("GET", "config"):
                return container.shown(query.get("current") == "1")
            case ("PUT", "config"):
                touched = [*body, *body.get("delete", "").split(",")]
                if user != "root@pam" and any(re.fullmatch(r"dev\d+", key) for key in touched):
                    raise Refusal(403, ROOT_ONLY)
                return container.update(body)
            case ("GET", "pending"):
                return container.rows()
            case ("GET", "status", "current"):
                return {"vmid": vmid, "status": "running" if container.running else "stopped", "type": "lxc"}
            case ("POST", "status", "reboot"):
                if self.server.exitstatus == "OK":
                    container.start()
                return f"UPID:pve1:0000C0DE:0001A2B3:6A0F0000:vzreboot:{vmid}:{user}:"
        raise Refusal(501, f"Method '{method} /{'/'.join(path)}' not implemented")


def _certificate(path: pathlib.Path) -> pathlib.Path:
    """A certificate that nobody trusts, as a node has before it was given another."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pve1.example.org")])
    now = datetime.datetime.now(datetime.timezone.utc)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + built.public_bytes(serialization.Encoding.PEM))
    return path
