"""The driver's user space in a container, from a small apt repository with packages of the real names."""

from __future__ import annotations

import shlex
import typing as t

from box import Box

# Two versions of three packages, one of which wants another of its own version, as the real ones do.
REPOSITORY = r"""
set -e
mkdir -p /srv/nvidia && cd /srv/nvidia
for version in 580.126.09-1 595.58.03-1; do
  for name in libcuda1 libnvidia-ml1 nvidia-smi; do
    work=$(mktemp -d); mkdir -p $work/DEBIAN
    { echo "Package: $name"; echo "Version: $version"; echo "Architecture: amd64"
      echo "Maintainer: lab <lab@example.org>"
      test $name != nvidia-smi || echo "Depends: libnvidia-ml1 (= $version)"
      echo "Description: stand-in"; } > $work/DEBIAN/control
    dpkg-deb -b $work ${name}_${version}_amd64.deb > /dev/null
  done
done
for file in *.deb; do
  dpkg-deb -f $file
  echo "Filename: ./$file"; echo "Size: $(stat -c %s $file)"; echo "SHA256: $(sha256sum $file | cut -d' ' -f1)"; echo
done > Packages
"""
SOURCES = "Types: deb\nURIs: file:/srv/nvidia\nSuites: ./\nTrusted: yes\n"


def test_exactly_the_hypervisors_version_is_installed_and_held(box: Box) -> None:
    box.sh(f"pct exec 102 -- bash -c {shlex.quote(REPOSITORY)}")

    def install(*arguments: str, **variables: t.Any) -> t.Any:
        return box.playbooks.run(
            "playbooks/driver.yml",
            "--limit",
            "sglang2",
            *arguments,
            variables={"gpu_host_driver_sources": SOURCES, **variables},
        )

    check = install("--check")
    assert "Would install version 580.126.09 of libcuda1, libnvidia-ml1, nvidia-smi" in check.output
    assert install().rc == 0
    names = "libcuda1 libnvidia-ml1 nvidia-smi"
    seen = box.inside(102, f"dpkg-query -W -f '${{Version}} ${{db:Status-Want}}\\n' {names} | sort -u")
    assert seen == "580.126.09-1 hold"
    again = install()
    assert (again.rc, again.changed) == (0, {}), again.output
    other = install(gpu_host_driver_version="595.58.03")
    assert other.rc != 0
    assert "Driver/library version mismatch" in other.output
    missing = install(gpu_host_driver_packages_container=["libcuda1", "libnvoptix1"])
    assert "no apt source has version 580.126.09 of libnvoptix1" in " ".join(missing.output.split())
