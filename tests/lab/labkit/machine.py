"""What of this machine a guest needs to reach the world: name servers, extra certificates, apt's proxy."""

from __future__ import annotations

from pathlib import Path

from .layer import Layer
from .shell import run

_CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
_OWN_CAS = Path("/usr/local/share/ca-certificates")


def name_servers() -> str:
    """Text of a resolv.conf that works from another network namespace: no server on a loopback address."""
    for candidate in ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"):
        path = Path(candidate)
        if path.exists():
            lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
            if any(line.startswith("nameserver") for line in lines) and not any(
                "nameserver 127." in line for line in lines
            ):
                return "\n".join(lines) + "\n"
    return "nameserver 9.9.9.9\n"


def give(layer: Layer) -> None:
    """Write name servers, certificates and apt's proxy into a host's layer."""
    layer.write("/etc/resolv.conf", name_servers())
    own = sorted(_OWN_CAS.glob("**/*.crt")) if _OWN_CAS.is_dir() else []
    if own and _CA_BUNDLE.exists():
        for certificate in own:
            layer.copy(certificate, f"/usr/local/share/ca-certificates/{certificate.name}")
        layer.copy(_CA_BUNDLE, str(_CA_BUNDLE))
        names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO")
        layer.write("/etc/environment", "".join(f"{name}={_CA_BUNDLE}\n" for name in names))
    dump = run(["apt-config", "dump", "Acquire::http::Proxy", "Acquire::https::Proxy"], check=False).stdout
    proxy = [line for line in dump.splitlines() if line.endswith('";') and '""' not in line]
    if proxy:
        layer.write("/etc/apt/apt.conf.d/80lab-proxy", "\n".join(proxy) + "\n")
